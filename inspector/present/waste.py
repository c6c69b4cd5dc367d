"""Bytes and evaluations that the program asks for, beside those that kernels make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.model.fusion import FusionGroup, FusionReport
from inspector.model.source import SourceLocation
from inspector.model.waste import Evaluation
from inspector.text import joined
from inspector.units import asked_text, times_each

from .spans import Line, Span, line, wrapped

LEAST_TIMES = 1.5
"""Less is the border of a window, or one value at the end of a row."""
_LEAST_PART = 0.02
"""Of what a kernel computes: the square root of a variance, taken for every element, is nothing."""
_MOST = 8
_MOST_PLACES = 3


def places_text(places: Sequence[SourceLocation]) -> str:
    """`model.py:9, model.py:10 and 2 more`."""
    names = list(dict.fromkeys(place.short for place in places))
    return joined(names, _MOST_PLACES) or "source unknown"


def repeated(report: FusionReport) -> list[Evaluation]:
    """What is computed again and again, the largest part of its kernel first."""
    items = (item for item in report.evaluations if item.times >= LEAST_TIMES and item.part >= _LEAST_PART)
    return sorted(items, key=lambda item: -item.part)


def group_texts(report: FusionReport) -> dict[str, list[str]]:
    """Post-fusion entry -> `16.8 MB moved, 6.14 KB asked for`, `erf: 16 times per element`; those that do
    nothing in vain are left out."""
    again = repeated(report)
    texts = {group.name: _texts([group], again) for group in report.groups}
    return {name: own for name, own in texts.items() if own}


def call_texts(report: FusionReport) -> dict[int, list[str]]:
    """The same by the wrapper's launches, of which one of C++ holds several entries."""
    again = repeated(report)
    groups: dict[int, list[FusionGroup]] = {}
    for group in report.groups:
        for call in group.calls:
            groups.setdefault(call, []).append(group)
    texts = {call: _texts(own, again) for call, own in groups.items()}
    return {call: own for call, own in texts.items() if own}


def _texts(groups: Sequence[FusionGroup], again: Sequence[Evaluation]) -> list[str]:
    moved = sum(group.bytes_moved or 0 for group in groups)
    asked = sum(group.bytes_asked or 0 for group in groups)
    names = {group.name for group in groups}
    evaluated = (f"{item.operator}: {times_each(item.times)}" for item in again if item.group in names)
    return [*([asked_text(moved, asked)] if asked < moved else []), *dict.fromkeys(evaluated)]


def waste_lines(report: FusionReport, width: int) -> Iterator[Line]:
    """What the program never asked for, with the lines of the program that it comes from."""
    again = repeated(report)
    if not report.rewritten and not again:
        return
    yield line(Span("  never asked for", "warn"))
    for item in report.rewritten[:_MOST]:
        text = f"{asked_text(item.moved, item.asked)}: {item.storage} is rewritten for its parts, written at "
        yield from wrapped(text + places_text(item.sources), width, "", "    ", "      ")
    alike: dict[str, list[Evaluation]] = {}
    for evaluation in again:
        text = f"{evaluation.operator}: {times_each(evaluation.times)}"
        alike.setdefault(f"{text}, %s for %s%s: {places_text(evaluation.sources)}", []).append(evaluation)
    for text, same in list(alike.items())[:_MOST]:
        counts = (f"{sum(one.evaluations for one in same):,}", f"{sum(one.elements for one in same):,}")
        kernels = f" in {len(same)} kernels" if len(same) > 1 else ""
        yield from wrapped(text % (*counts, kernels), width, "", "    ", "      ")
    left = max(0, len(alike) - _MOST) + max(0, len(report.rewritten) - _MOST)
    if left:
        yield line(Span(f"    ... and {left} more (--json has all)", "dim"))
