"""Lowers kernels of a run in a child, confined and limited like a replay's, and keeps what it made."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inspector.analysis.lowering import LoweredKernel
from inspector.model.codec import Malformed
from inspector.process import PIPE, Child, Limits, Lines, python_child
from inspector.readers.run import Run
from inspector.readers.stages.files import MADE, STAGE_FILES, own_file
from inspector.replay import protocol
from inspector.replay.environment import child_environment, confined
from inspector.replay.lower_protocol import LowerJob, LowerRequest
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import with_memory
from inspector.temporary import temporary_folder
from inspector.units import size

_LOG_CHARACTERS = 4000
_MOST_CHILDREN = 8
_STEP_S = 300.0
"""For one kernel: a C++ one takes ten seconds where the machine is idle, and so does importing torch."""
_LARGEST = 64 << 20
"""Bytes of a file that is kept: a cubin of a large template has some 200 kB."""


class LoweringStopped(Exception):
    """The caller asked to stop; the child has been killed."""


@dataclass(slots=True)
class Lowerings:
    """What became of the jobs, by their positions."""

    seconds: dict[int, float] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    notes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    failure: str | None = None
    """Why the rest was not tried."""
    current: int | None = None


def lower_job(item: LoweredKernel, target: str | None = None) -> LowerJob | None:
    """What lowering a kernel takes; None where no source of it is there that can be. `target` is a GPU."""
    kernel = item.kernel
    metadata = dict(kernel.metadata)
    if kernel.kind == "cpp" and target is None and "#include" in kernel.source:
        return LowerJob(kernel.name, kernel.function, own_file(kernel), kernel.source, cpp=True)
    if metadata.get("async_compile") != "triton" or not kernel.function:
        return None
    config = dict(item.recorded.config) if item.recorded is not None else {}
    if not config and item.folder is not None:
        config = dict(item.folder.config)
    own = item.folder.files.get("cubin") if item.folder is not None else None
    cubin = own.absolute() if own is not None and target is None else None
    return LowerJob(kernel.name, kernel.function, own_file(kernel), kernel.source, config, target, cubin)


def made_folder(run: Run) -> Path | None:
    """Where what is made is kept: in a capture of one's own; None where it cannot be."""
    keeps = run.kind == "capture" and run.root.is_dir() and os.access(run.root, os.W_OK)
    return run.root / MADE if keeps and not run.located.unpacked else None


def lower_kernels(
    jobs: Sequence[LowerJob],
    folder: Path,
    options: ReplayOptions | None = None,
    on_progress: Callable[[str], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Lowerings:
    """The jobs' stages in `folder`, one folder for each kernel. After a crash another child goes on behind
    the kernel that it was at. Raises LoweringStopped where `should_stop` said so."""
    options = with_memory(options or ReplayOptions())
    result = Lowerings()
    with temporary_folder("inspector-lower-") as scratch:
        made = scratch / "made"
        made.mkdir()
        for _ in range(_MOST_CHILDREN):
            done = tuple({**result.seconds, **result.problems})
            request = LowerRequest(tuple(jobs), made, options.memory_bytes, done)
            result.failure = _one_child(request, scratch, options, result, on_progress, should_stop)
            lost, result.current = result.current, None
            if result.failure is None or lost is None:
                break
            result.problems[lost] = result.failure
        keep(made, folder, result.keys.values())
    return result


def _one_child(
    request: LowerRequest,
    scratch: Path,
    options: ReplayOptions,
    result: Lowerings,
    on_progress: Callable[[str], object] | None,
    should_stop: Callable[[], bool] | None,
) -> str | None:
    """Why it did not finish; None where it did."""
    limits = Limits(memory_bytes=request.memory_bytes or math.inf)
    limits.mark(_STEP_S)
    said: dict[str, str] = {}

    def take(line: bytes) -> None:
        if not line:
            return
        try:
            event = protocol.from_line(line)
        except Malformed:
            return
        if isinstance(event, protocol.KernelStarted):
            result.current = event.call
            limits.mark(_STEP_S)
            if on_progress is not None:
                on_progress(f"lowering {event.kernel} ({event.call + 1}/{len(request.jobs)})")
        elif isinstance(event, protocol.KernelLowered):
            result.current = None
            limits.mark(_STEP_S)
            result.seconds[event.call] = event.seconds
            result.notes[event.call] = event.notes
            if event.problem is not None:
                result.problems[event.call] = event.problem
            if event.key is not None and Path(event.key).name == event.key:
                result.keys[event.call] = event.key
        elif isinstance(event, protocol.Failed):
            said["failed"] = event.text
        elif isinstance(event, protocol.Done):
            said["done"] = ""

    path = scratch / "request.json"
    request.write(path)
    environment = child_environment(scratch, options)
    try:
        child = Child(
            python_child(options.python, "inspector.replay.worker.lower", str(path), PIPE),
            env=environment | confined(scratch, scratch, environment, gpu=False),
            cwd=scratch,
            stdin="held",
            pipe=Lines(take),
        )
    except OSError as error:
        return f"cannot start {options.python or 'python'}: {error.strerror or error}"
    ending = child.follow(limits, should_stop)
    if ending.stopped:
        raise LoweringStopped
    if "done" in said:
        return None
    if "failed" in said:
        return said["failed"]
    if ending.timed_out == "memory":
        return f"out of memory: it took more than {size(request.memory_bytes or 0)}"
    if ending.timed_out:
        return f"not lowered within {_STEP_S:g} s"
    what = ending.signal or f"exit code {ending.code}"
    return f"the child ended with {what}: {ending.tail[-_LOG_CHARACTERS:].strip().rpartition(chr(10))[2]}"


def keep(made: Path, folder: Path, keys: Iterable[str]) -> None:
    """Of what the child wrote in `made` the plain files that it was to write. Raises OSError; then the file
    that had no room is not there."""
    for key in keys:
        for path in sorted((made / key).iterdir()) if (made / key).is_dir() else ():
            fits = path.suffix[1:] in STAGE_FILES and path.is_file() and not path.is_symlink()
            if fits and path.stat().st_size <= _LARGEST:
                (folder / key).mkdir(parents=True, exist_ok=True)
                try:
                    shutil.copyfile(path, folder / key / path.name)
                except OSError:
                    (folder / key / path.name).unlink(missing_ok=True)
                    raise
