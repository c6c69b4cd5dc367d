"""A past run in words: when it was, and how it compared."""

from __future__ import annotations

import time

from inspector.analysis.steady import RUN_TO_RUN
from inspector.model.history import PastRun
from inspector.units import comparison, date_text

from .spans import Span


def past_span(item: PastRun, other: str = "") -> Span:
    """`3.60x faster than eager`, of two runs that were not in turns: a small difference is none. `3.60x
    faster` without an `other` to name."""
    faster = item.faster
    if faster is None:
        return Span("")
    if item.outcome == "same" or abs(faster - 1) <= RUN_TO_RUN:
        return Span(f"as fast as {other}" if other else "as fast")
    return Span(comparison(faster, other), "good" if faster > 1 else "bad")


def when(started: float) -> str:
    """`today 14:02`, `2026-11-21 05:08`; empty for no time."""
    then = date_text(started) if started else ""
    return then.replace(date_text(time.time())[:10], "today", 1)
