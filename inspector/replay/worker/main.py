"""The child: loads one graph's generated code, runs it and the FX graph, and reports as it goes.

Events are JSON lines on a descriptor of their own, because the graph's code may print:
``stage`` (text), ``machine``, ``device``, ``label``, ``note``, ``check`` (an OutputCheck),
``timing`` (which, median_ms, iqr_ms, rounds; a later one replaces an earlier), ``failure`` (reason)
and ``done``. A child that dies has reported whatever it had measured.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from inspector.replay.worker.events import Failure, Reporter, describe, first_line


def main(request_path: str, descriptor: int) -> int:
    """Replays what the request file describes; 0 wherever the parent was told how it ended."""
    _die_with_parent()
    reporter = Reporter(descriptor)
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    reporter.send("stage", text="loading torch")
    try:
        import torch
    except Exception as error:
        reporter.send("failure", reason=f"{sys.executable} cannot import torch: {first_line(error)}")
        return 0
    interpret = _needs_interpreter(torch, request)
    if interpret:
        # Before Triton is imported, which decides by it what triton.jit makes.
        os.environ["TRITON_INTERPRET"] = "1"
    reporter.send("machine", machine=_machine(torch))
    try:
        # After the check above: it imports torch itself.
        from inspector.replay.worker.replay import Replay

        with torch.no_grad():
            Replay(request, reporter, interpret).run()
    except Failure as failure:
        reporter.send("failure", reason=str(failure))
    except Exception as error:
        traceback.print_exc()
        reporter.send("failure", reason=describe(error))
    else:
        reporter.send("done")
    return 0


def _die_with_parent() -> None:
    """Kills this process group once standard input closes: the parent, which holds it, is gone."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _needs_interpreter(torch: Any, request: dict[str, Any]) -> bool:
    """Whether code of a CUDA GPU is to run on the CPU: there is no such GPU, or the CPU was asked for."""
    from inspector.replay.worker.code.generated import required_device

    text = Path(request["output_code"]).read_text(encoding="utf-8", errors="replace")
    asked = request["options"]["device"]
    return required_device(text)[0] == "cuda" and (
        asked == "cpu" or (asked is None and not torch.cuda.is_available())
    )


def _machine(torch: Any) -> dict[str, Any]:
    try:
        import triton

        triton_version: str | None = triton.__version__
    except Exception:
        triton_version = None
    cuda = torch.cuda.is_available()
    return {
        "torch": torch.__version__,
        "triton": triton_version,
        "python": platform.python_version(),
        "executable": sys.executable,
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(0) if cuda else "cpu",
        "cuda_devices": torch.cuda.device_count() if cuda else 0,
    }
