"""Files that are written whole or not at all, under names that nothing has yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write beside and rename, so that a reader never sees half of it; what UTF-8 cannot say is replaced.

    Raises OSError, and leaves nothing behind then.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8", errors="replace")
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def unused(stem: str, taken: Callable[[str], bool]) -> str:
    """`stem`, or the first of `stem-2`, `stem-3` and so on that is not taken."""
    return stem if not taken(stem) else next(name for n in count(2) if not taken(name := f"{stem}-{n}"))
