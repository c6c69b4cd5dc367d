"""A steady call's account in lines: three figures of each part, what findings claim of it, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.explain.block_words import sized_calls
from inspector.model.account import Account, Interval
from inspector.model.calls import CallGroup
from inspector.text import cells, crop, elide, pad
from inspector.units import duration

from .spans import Line, Span, line, toned

_MS = 9
_INTERVAL = 16
_BESIDE = 2 + 2 * (_MS + 1) + 2 * (_INTERVAL + 1) + _MS + 2
"""Cells of a row beside the name."""
_LEAST_NAME, _MOST_NAME = 12, 56
_MOST = 8
"""Parts with a row; the rest is summed."""
_MOST_GROUPS = 4
LEAST_MS = 1e-6
"""A nanosecond: less is rounding."""
_SMALL = 0.01
"""Of a call: below, a part needs no row."""


def loss_lines(account: Account | None, width: int) -> Iterator[Line]:
    """What nobody claims of what a call takes longer than in eager, and over the least that it could take."""
    if account is None:
        return
    if account.over_eager_ms is not None and account.over_eager_ms > account.noise_ms:
        left = account.unexplained_ms or 0.0
        rest = f"of which {duration(left)} stay unexplained" if left >= LEAST_MS else "all of it told below"
        text = f"{duration(account.over_eager_ms)} more than eager, {rest}"
        yield toned(crop(f"  {text}", width), "warn" if left > account.noise_ms else "dim")
    if account.left_ms > account.noise_ms:
        text = f"{duration(account.left_ms)} more than its kernels need stay unexplained"
        yield toned(crop(f"  {text}", width), "warn")


def group_lines(groups: Sequence[CallGroup], width: int) -> Iterator[Line]:
    """Calls of different sizes, a line each, those that lose most against eager first."""
    shown = sorted(groups, key=lambda group: (-group.lost_ms, -group.compiled.median_ms))
    for group in shown[:_MOST_GROUPS]:
        times = duration(group.compiled.median_ms)
        if group.eager is not None:
            times = f"{duration(group.eager.median_ms)} in eager, {times} compiled"
        said = {"slower": "slower", "faster": "faster", "same": "as fast", "unknown": "too few to tell"}
        outcome = f" ({said[group.outcome]})" if group.eager is not None else ""
        text = f"{sized_calls(group)}: {times}{outcome}"
        yield toned(crop(f"  {text}", width), "warn" if group.outcome == "slower" else "dim")


def account_lines(account: Account | None, width: int) -> Iterator[Line]:
    """The larger parts of a call; none where there is no room for the figures."""
    if account is None or account.ms is None or width < _BESIDE + _LEAST_NAME:
        return
    large = [part for part in account.parts if part.ms >= _SMALL * (account.ms or 0.0) or part.claimed_ms[1]]
    shown = sorted(large, key=lambda part: -max(part.ms, part.claimed_ms[1]))[:_MOST]
    if not shown:
        return
    most = max(_LEAST_NAME, min(_MOST_NAME, width - _BESIDE))
    name = min(most, max(cells(part.name) for part in shown))
    head = f"  {pad('by part', name)} {'took':>{_MS}} {'eager':>{_MS}} {'at least':>{_INTERVAL}}"
    yield toned(f"{head} {'claimed':>{_INTERVAL}} {'left':>{_MS}}", "dim")
    for part in shown:
        left = part.left_ms
        unclaimed = duration(left) if left >= LEAST_MS else ""
        yield line(
            f"  {pad(elide(part.name, name), name)} {duration(part.ms):>{_MS}}",
            Span(f" {duration(part.eager_ms) if part.eager_ms is not None else '':>{_MS}}"),
            Span(f" {_interval(part.least_ms):>{_INTERVAL}}", "dim"),
            Span(f" {_interval(part.claimed_ms) if part.claimed_ms[1] else '':>{_INTERVAL}}", "accent"),
            Span(
                f" {unclaimed:>{_MS}}",
                "warn" if left > account.noise_ms else "dim",
            ),
        )


def _interval(ms: Interval | None) -> str:
    """`1.20..4.10 ms`, `17.0 us..4.10 ms`; one figure where both ends read the same."""
    if ms is None:
        return ""
    low, high = (duration(value) for value in ms)
    if low == high:
        return high
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low}..{high}"
