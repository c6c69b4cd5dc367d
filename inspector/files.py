"""Files that are written whole or not at all, under names that nothing has yet; and opened only where they
are files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, text: str) -> None:
    """Write beside and rename, so that a reader never sees half of it; what UTF-8 cannot say is replaced.

    Raises OSError, and leaves nothing behind then.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        # A new file, not one that a link of that name leads to.
        with beside.open("x", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def unused(stem: str, taken: Callable[[str], bool]) -> str:
    """`stem`, or the first of `stem-2`, `stem-3` and so on that is not taken."""
    return stem if not taken(stem) else next(name for n in count(2) if not taken(name := f"{stem}-{n}"))


def is_inside(path: Path, root: Path) -> bool:
    """Whether what is written at `path`, below `root` by its words, lands there: no link leads out of it."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def open_plain(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to read it; what is no file (a pipe nobody writes to, a device) is an OSError, at once."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a file")
    # It may have been replaced meanwhile: to open a pipe must not block either.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file")
    return os.fdopen(descriptor, "rb")


def read_plain(path: str | os.PathLike[str], most: int = 64 << 20) -> bytes:
    """A file's bytes. Raises OSError also for what is no file, and for one of more than `most` bytes."""
    with open_plain(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, "too large")
    return data


def home() -> Path:
    """The user's; a folder that is nowhere for one without HOME whom the system does not know (a container
    that is started with a number for a user)."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME`; ~/.cache by default."""
    base = environ.get("XDG_CACHE_HOME")
    return Path(os.path.expanduser(base)) if base else home() / ".cache"


def state_folder() -> Path:
    """`$XDG_STATE_HOME/inspector`; in ~/.local/state by default and for a relative path."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else home() / ".local" / "state") / "inspector"
