"""A program's own traceback, as it would be without us: a call that is timed has a frame of ours in it.

A frame cannot be kept out of a traceback that unwinds through it. So where an exception passes one, the
standard hook for what nobody takes is replaced by one that leaves our frames out; a program's own hook stays.
The walks of the standard library along a traceback, with which a program or its log prints one, do so too.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from types import TracebackType
from typing import Any

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_DEEPEST = 10_000
_WALKS = ("walk_tb", "_walk_tb_with_full_positions")
"""Lib/traceback.py: generators of pairs that begin with a frame; the second since Python 3.11."""


def leave_ours_out() -> None:
    """From here on, where the program has no hook of its own."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_without_ours
    for name in _WALKS:
        walk = getattr(traceback, name, None)
        if walk is not None and not hasattr(walk, "__wrapped__"):
            setattr(traceback, name, _past_ours(walk))


def _past_ours(walk: Any) -> Any:
    @functools.wraps(walk)
    def walked(trace: Any) -> Any:
        for pair in walk(trace):
            if not pair[0].f_code.co_filename.startswith(OURS):
                yield pair

    return walked


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
