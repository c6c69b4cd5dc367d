"""Bytes and evaluations that the program asks for, beside those that kernels make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.analysis.evaluations import repeated
from inspector.analysis.summary import GraphWaste
from inspector.model.fusion import FusionGroup, FusionReport
from inspector.model.source import SourceLocation, short_places
from inspector.model.waste import Evaluation
from inspector.text import joined
from inspector.units import asked_text, size, times_each, times_over

from .spans import Line, Span, line, wrapped

_MOST = 8
_MOST_PLACES = 3


def places_text(places: Sequence[SourceLocation]) -> str:
    """`model.py:9, 10 and 2 more`."""
    return joined(short_places(places), _MOST_PLACES) or "source unknown"


def group_texts(report: FusionReport) -> dict[str, list[str]]:
    """Post-fusion entry -> `16.8 MB moved, 6.14 KB asked for`, `erf: 16 times per element`; those that do
    nothing in vain are left out."""
    again = repeated(report.evaluations)
    texts = {group.name: _texts([group], again) for group in report.groups}
    return {name: own for name, own in texts.items() if own}


def call_texts(report: FusionReport, brief: bool = False) -> dict[int, list[str]]:
    """The same by the wrapper's launches, of which one of C++ holds several entries. `brief`: `erf 16x`,
    `16.8 MB for 6.14 KB`, for a table's cell."""
    again = repeated(report.evaluations)
    groups: dict[int, list[FusionGroup]] = {}
    for group in report.groups:
        for call in group.calls:
            groups.setdefault(call, []).append(group)
    texts = {call: _texts(own, again, brief) for call, own in groups.items()}
    return {call: own for call, own in texts.items() if own}


def _texts(groups: Sequence[FusionGroup], again: Sequence[Evaluation], brief: bool = False) -> list[str]:
    moved = sum(group.bytes_moved or 0 for group in groups)
    asked = sum(group.bytes_asked or 0 for group in groups)
    names = {group.name for group in groups}
    own = [item for item in again if item.group in names]
    if brief:
        evaluated = [f"{item.operator} {times_over(item.times)}" for item in own]
        said = f"{size(moved)} for {size(asked)}"
    else:
        evaluated = [f"{item.operator}: {times_each(item.times)}" for item in own]
        said = asked_text(moved, asked)
    return [*([said] if asked < moved else []), *dict.fromkeys(evaluated)]


def node_texts(report: FusionReport) -> dict[str, str]:
    """FX node -> `computed 16 times per element`, `all of arg0_1 is rewritten for this part`."""
    texts = {name: f"all of {item.storage} is rewritten for this part" for item in report.rewritten
             for name in item.writes}  # fmt: skip
    for item in reversed(repeated(report.evaluations)):
        texts.update(dict.fromkeys(item.fx, f"computed {times_each(item.times)}"))
    return texts


def run_text(waste: Sequence[GraphWaste]) -> str:
    """`403 MB moved, 2.11 MB asked for; erf 16 times per element`: of all graphs, with the worst operators;
    empty where nothing is done in vain."""
    rewriting = [item for item in waste if item.bytes_asked < item.bytes_moved]
    moved, asked = sum(item.bytes_moved for item in rewriting), sum(item.bytes_asked for item in rewriting)
    again = sorted((e for item in waste for e in item.repeated), key=lambda item: -item.extra)
    texts = dict.fromkeys(f"{item.operator} {times_each(item.times)}" for item in again)
    return "; ".join([*([asked_text(moved, asked)] if rewriting else []), *list(texts)[:_MOST_PLACES]])


def waste_lines(report: FusionReport, width: int) -> Iterator[Line]:
    """What the program never asked for, with the lines of the program that it comes from."""
    again = repeated(report.evaluations)
    if not report.rewritten and not again:
        return
    yield line(Span("  never asked for", "warn"))
    for item in report.rewritten[:_MOST]:
        text = f"{asked_text(item.moved, item.asked)}: {item.storage} is rewritten for its parts, written at "
        yield from wrapped(text + places_text(item.sources), width, "", "    ", "      ")
    alike: dict[tuple[str, str], list[Evaluation]] = {}
    for evaluation in again:
        text = f"{evaluation.operator}: {times_each(evaluation.times)}"
        alike.setdefault((text, places_text(evaluation.sources)), []).append(evaluation)
    for (text, places), same in list(alike.items())[:_MOST]:
        made, elements = sum(one.evaluations for one in same), sum(one.elements for one in same)
        kernels = f" in {len(same)} kernels" if len(same) > 1 else ""
        said = f"{text}, {made:,} for {elements:,}{kernels}: {places}"
        yield from wrapped(said, width, "", "    ", "      ")
    left = max(0, len(alike) - _MOST) + max(0, len(report.rewritten) - _MOST)
    if left:
        yield line(Span(f"    ... and {left} more (--json has all)", "dim"))
