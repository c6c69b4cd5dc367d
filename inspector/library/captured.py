"""`inspector.capture(fn, *args)`: a function's calls captured as a program of their own.

The function and its arguments are pickled, by value where they were written in a notebook, and a small
program in a process of its own compiles and calls them. To `inspector capture` it is a command like any
other: a baseline, trying settings and replaying work as ever. What this process has compiled plays no part.
"""

from __future__ import annotations

import linecache
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import DEFAULT_PARENT
from inspector.capture.launch import capture as capture_command
from inspector.files import unused
from inspector.model.problem import InspectorError, told
from inspector.readers.failures import program_failure

from .run import Run, open

CALLS = 50
"""Of the function: the first ones compile, and a median of the others is told from noise."""
_PROGRAM = '''"""Runs what inspector.capture pickled beside it."""

import linecache
import pickle
import sys
from pathlib import Path

import torch

with Path(__file__).with_name("called.pickle").open("rb") as file:
    sources, names, mode, threads = pickle.load(file)
if threads is not None:
    torch.set_num_threads(threads)
for path, lines in sources.items():
    linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
cell = Path(__file__).with_name("cell.py")
if cell.exists():
    exec(compile(cell.read_text(encoding="utf-8"), str(cell), "exec"), names)
else:
    compiled = torch.compile(names["fn"], mode=mode)
    for _ in range(names["calls"]):
        compiled(*names["args"], **names["kwargs"])
'''


def capture(
    fn: Callable[..., object],
    *args: object,
    out: str | os.PathLike[str] | None = None,
    baseline: bool = True,
    calls: int = CALLS,
    mode: str | None = None,
    **kwargs: object,
) -> Run:
    """Compile `fn` in a process of its own, call it `calls` times with these arguments, and open the run.

    `fn` is a function, a module, or what torch.compile made of one; its own arguments may not be called as
    the options are. `out` is the run's folder, a new one below ``inspector_runs`` where it is not named.
    `mode` is torch.compile's. With `baseline` the same is run again in eager, which says whether that pays.

    Raises InspectorError where the function cannot be pickled, or the program fails.
    """
    whole = getattr(fn, "_orig_mod", None) or getattr(fn, "_torchdynamo_orig_callable", None) or fn
    name = getattr(whole, "__name__", type(whole).__name__)
    names = {"fn": whole, "args": args, "kwargs": kwargs, "calls": calls}
    return run_program(names, name=name, out=out, baseline=baseline, mode=mode)


def run_program(
    names: Mapping[str, object],
    *,
    name: str,
    out: str | os.PathLike[str] | None,
    baseline: bool,
    mode: str | None = None,
    cell: str | None = None,
) -> Run:
    """Capture the program that has these `names` and runs the `cell`, or calls `fn`. Its files stay beside
    the run, so that it can be captured again."""
    pickled = _pickled((_unsaved_sources(), dict(names), mode, _threads()))
    stem = f"{''.join(char if char.isalnum() else '-' for char in name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder = Path(out) if out is not None else DEFAULT_PARENT / unused(stem, _is_there)
    program = _program(folder)
    try:
        program.mkdir(parents=True)
        (program / "called.pickle").write_bytes(pickled)
        (program / "program.py").write_text(_PROGRAM, encoding="utf-8")
        if cell is not None:
            (program / "cell.py").write_text(cell, encoding="utf-8")
    except OSError as error:
        raise InspectorError(f"{program}: cannot be written: {error.strerror}") from None
    command = (sys.executable, str((program / "program.py").absolute()))
    outcome = capture_command(CaptureOptions(out=folder, command=command, baseline=baseline), display=Quiet())
    run = open(outcome.run)
    if outcome.exit_code:
        died = program_failure(run.files)
        why = died.error if died is not None else f"exit code {outcome.exit_code}"
        raise InspectorError(f"the program failed: {why}; see {outcome.run / 'logs'}")
    return run


def _program(run: Path) -> Path:
    return run.with_name(f"{run.name}-program")


def _is_there(name: str) -> bool:
    run = DEFAULT_PARENT / name
    return run.exists() or _program(run).exists()


def _threads() -> int | None:
    """As many as torch uses here, where it is imported, so that times are those of this process."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else None


def _pickled(value: object) -> bytes:
    """By value where what is to be pickled has no module that a process could import."""
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    try:
        return bytes(pickler.dumps(value))
    except Exception as error:  # noqa: BLE001
        # What a function refers to may raise anything when it is pickled.
        hint = "" if pickler is not pickle else "; with cloudpickle more can be: pip install cloudpickle"
        raise InspectorError(f"the function or an argument cannot be pickled: {told(error)}{hint}") from None


def _unsaved_sources() -> dict[str, list[str]]:
    """Lines of what has no file, such as a notebook's cells: torch quotes them, and so do findings."""
    return {
        name: entry[2]
        for name, entry in list(linecache.cache.items())
        if len(entry) == 4 and not os.path.exists(name)
    }


class Quiet:
    """A capture's display that shows nothing; what the program writes is in the run."""

    detached = True
    stop_requests = 0

    def size(self) -> tuple[int, int]:
        return 100, 40

    def write_stderr(self, data: bytes) -> bool:  # noqa: ARG002
        return True

    write_stdout = write_stderr

    def say(self, text: str) -> None:
        """Nothing: problems are in the run."""

    def started(self, run: Path) -> None:
        """Nothing: nobody watches."""

    show = say

    def clear(self) -> None:
        """There is no line to take away."""
