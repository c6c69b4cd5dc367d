"""Temporary folders: gone when they are left, and where a signal ends the program; what a killed one left
behind goes with the next."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

try:
    import fcntl
except ImportError:
    # Windows has no such locks: what a killed parent leaves behind stays there.
    fcntl = None  # type: ignore[assignment]

_LOCK = "in_use"

_made: set[Path] = set()
"""Temporary folders of this process."""


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder that is removed afterwards; with it go those of that prefix whose makers were killed before
    they could, which are known by a lock that nobody holds any more."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            if (lock := _lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _made.add(folder)
        lock = _new_lock(folder)
        try:
            yield folder
        finally:
            _made.discard(folder)
            if lock is not None:
                os.close(lock)


def _new_lock(folder: Path) -> int | None:
    """Held before it has its name: whoever looks for folders that were left never sees it free."""
    (folder / "new").touch()
    lock = _lock(folder, "new")
    (folder / "new").rename(folder / _LOCK)
    return lock


def _lock(folder: Path, name: str = _LOCK) -> int | None:
    """A lock on the folder, as a descriptor; None where it is another's, or has no such file."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder / name, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_on_signals() -> None:
    """What ends the program at once by default still does, after temporary folders are gone. What is ignored
    (nohup) stays ignored; only the main thread can do this."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ():
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _remove_and_end)


def _remove_and_end(number: int, _frame: FrameType | None) -> None:
    # Not by an exception: one that is raised while Python frees an object is lost.
    for folder in tuple(_made):
        shutil.rmtree(folder, ignore_errors=True)
    if os.isatty(2):
        # A spinner hides the cursor.
        os.write(2, b"\x1b[?25h")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
