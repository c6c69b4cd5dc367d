"""What is made once for all tests of a session, whichever process asks first; archives."""

from __future__ import annotations

import fcntl
import tarfile
from collections.abc import Callable
from pathlib import Path


def once(folder: Path, make: Callable[[Path], object]) -> Path:
    """`folder`, filled by `make` unless that has been done; nobody may write into it after that."""
    done = folder.with_suffix(".done")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def unpacked(archive: Path, folder: Path) -> Path:
    """`folder`, with what is in an archive of tests/data or sample_runs."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder
