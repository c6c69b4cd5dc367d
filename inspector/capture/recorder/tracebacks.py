"""A program's own traceback, as it would be without us: a call that is timed has a frame of ours in it.

A frame cannot be kept out of a traceback that unwinds through it. So where an exception passes one, the
standard hook for what nobody takes is replaced by one that leaves our frames out; a program's own hook stays.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_DEEPEST = 10_000


def leave_ours_out() -> None:
    """From here on, where the program has no hook of its own."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_without_ours


def _print_without_ours(kind: Any, error: Any, trace: Any) -> None:
    try:
        seen: set[int] = set()
        waiting = [error]
        while waiting:
            one = waiting.pop()
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                one.__traceback__ = without_ours(one.__traceback__)
                waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    except Exception:
        pass
    sys.__excepthook__(kind, error, error.__traceback__)


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The same traceback without the frames of this package."""
    kept: list[TracebackType] = []
    while trace is not None and len(kept) < _DEEPEST:
        if not trace.tb_frame.f_code.co_filename.startswith(OURS):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = trace
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made
