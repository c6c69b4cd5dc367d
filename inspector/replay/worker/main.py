"""The child: loads one graph's generated code, runs it and the FX graph, and reports as it goes.

Run as ``python -m inspector.replay.worker.main REQUEST FD`` (`inspector.process.python_child`). What it says
goes as `inspector.replay.protocol`'s events to the descriptor FD, because the graph's code may print. A child
that dies has reported whatever it had measured.
"""

from __future__ import annotations

import os
import platform
import sys
import traceback
from pathlib import Path

from inspector import confinement
from inspector.replay.protocol import Confined, Done, Failed, Machine, Request
from inspector.replay.worker.events import Failure, Reporter, describe, first_line

_RESERVED_BYTES = 8 << 30
"""Of memory that is asked for and not used: stacks of threads above all."""


def main(request_path: str, descriptor: int) -> None:
    """Replays what the request file describes, and tells the parent how it ended."""
    reporter = Reporter(descriptor)
    request = Request.read(Path(request_path))
    reporter.stage("loading torch")
    try:
        import torch
    except Exception as error:
        reporter.send(Failed(f"{sys.executable} cannot import torch: {first_line(error)}"))
        return
    from inspector.replay.worker.code.generated import required_device

    kind = required_device(request.files.output_code.read_text(encoding="utf-8", errors="replace"))[0]
    asked = request.options.device
    # There is no such GPU, or the CPU was asked for.
    interpret = kind == "cuda" and (asked == "cpu" or (asked is None and not torch.cuda.is_available()))
    if interpret:
        # Before Triton is imported, which decides by it what triton.jit makes.
        os.environ["TRITON_INTERPRET"] = "1"
    most = request.options.memory_bytes
    if confinement.STATE and most is not None and (interpret or kind == "cpu"):
        confinement.limit_memory(most + _RESERVED_BYTES)
    active, missing = confinement.words(confinement.STATE)
    reporter.send(Confined(tuple(active), tuple(missing)))
    notes = _as_it_was(request, kind)
    reporter.send(_machine())
    for sentence in notes:
        reporter.note(sentence)
    try:
        # After the check above: it imports torch itself.
        from inspector.replay.worker.replay import Replay

        with torch.no_grad():
            Replay(request, reporter, interpret).run()
    except Failure as failure:
        reporter.send(Failed(str(failure)))
    except Exception as error:
        traceback.print_exc()
        reporter.send(Failed(describe(error)))
    else:
        reporter.send(Done())


def _as_it_was(request: Request, kind: str) -> list[str]:
    """Set torch as it was in the run; what could not be set, as sentences."""
    state = request.files.state
    if state is None:
        return []
    from inspector.replay.worker.state import restore

    try:
        return list(restore(state.torch, kind))
    except Exception as error:
        return [f"torch could not be set as it was in the run: {first_line(error)}"]


def _machine() -> Machine:
    import torch

    try:
        import triton

        triton_version: str | None = triton.__version__
    except Exception:
        triton_version = None
    cuda = torch.cuda.is_available()
    return Machine(
        torch=str(torch.__version__),
        triton=triton_version,
        python=platform.python_version(),
        executable=sys.executable,
        threads=torch.get_num_threads(),
        cuda=torch.version.cuda,
        device=torch.cuda.get_device_name(0) if cuda else "cpu",
        cuda_devices=torch.cuda.device_count() if cuda else 0,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    # All is said: to take torch down object by object would cost more than many a graph.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
