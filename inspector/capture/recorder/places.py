"""Where the user's own code is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType

# What inspector.model.source.is_library knows, and commands such as bin/torchrun.
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|bin|lib(?:64)?[/\\]python3(?:\.\d+)?)[/\\]")


def user_location(skip: Callable[[str], bool]) -> str | None:
    """Of the code that asks: see `location_of`."""
    return location_of(sys._getframe(1), skip)


def location_of(frame: FrameType | None, skip: Callable[[str], bool]) -> str | None:
    """`FILE:LINE` of the innermost frame whose file `skip` does not know, one of the user's own before a
    library's, which may compile for its user; None where there is none."""
    first = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not skip(file):
            if not _LIBRARY.search(file):
                return f"{file}:{frame.f_lineno}"
            first = first or f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return first
