"""Two runs compared, for a screen: a table of what differs, and both sides of one row beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from inspector.analysis.diff.code import DiffRow, body_of, side_by_side
from inspector.comparison import Side
from inspector.frozen import dataclass
from inspector.model.diff import KernelMatch, LaunchId, RunDiff
from inspector.model.run import GraphArtifacts
from inspector.text import crop, few, pad
from inspector.units import plural

from .diff import RELATIONS, change_text, changes_text, fusion_text, lines, sign_of
from .rows import DifferenceRow
from .spans import Line, Page, Span, Tone, fitted, line, toned, wrapped
from .tables import Column, Row, Table

GRAPH_TEXTS = ("FX graph", "IR before fusion", "IR after fusion", "code")
"""What can be seen of a graph, in this order."""
_BESIDE = 110
"""Columns from which two texts stand side by side; below that their lines follow each other."""
_MOST_LINES = 3_000
"""Of a text are compared: beyond, finding what two have in common would take seconds."""
_NUMBER = 5

Kind = Literal["all", "graph", "kernel"]
_COLUMNS = (
    Column(""),
    Column("A", shrinks=True, least=14),
    Column("B", shrinks=True, least=14),
    Column("where", rank=1, shrinks=True),
    Column("what differs", rank=2, shrinks=True),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs, read and compared."""

    a: Side
    b: Side
    diff: RunDiff


def changes_table(diff: RunDiff, everything: bool) -> Table:
    """A row for all of it, then graphs and kernels: those that differ, or every one."""
    rows = [Row(DifferenceRow("all", 0), (Span("Everything that differs", "accent"),), wide=True)]
    for number, graph in enumerate(diff.graphs):
        if everything or graph.relation != "same":
            told = ", ".join(map(change_text, graph.changes)) or RELATIONS[graph.relation]
            cells = (sign_of(graph.relation), Span(" ".join(graph.a)), Span(" ".join(graph.b)))
            rows.append(Row(DifferenceRow("graph", number), (*cells, Span(""), Span(told, "dim"))))
    for number, match in enumerate(diff.kernels):
        if everything or match.relation != "same":
            rows.append(Row(DifferenceRow("kernel", number), _cells(match)))
    title = "Graphs and kernels" if everything else "What differs"
    return Table(title, _COLUMNS, tuple(rows))


def _cells(match: KernelMatch) -> tuple[Span, ...]:
    places = dict.fromkeys(place for item in (match.a or match.b) for place in item.lines)
    return (
        sign_of(match.relation),
        Span(_names(match.a)),
        Span(_names(match.b)),
        Span(few(list(places)), "dim"),
        Span(changes_text(match)),
    )


def _names(launches: Sequence[LaunchId]) -> str:
    first = launches[0].kernel if launches else ""
    return f"{first} +{len(launches) - 1}" if len(launches) > 1 else first


def detail_page(compared: Compared, row: DifferenceRow, text: int, width: int) -> Page:
    """Both sides of a row; `text` is the place in `GRAPH_TEXTS` of what is shown of a graph."""
    if row.kind == "kernel":
        match = compared.diff.kernels[row.number]
        return Page(_names(match.a or match.b), tuple(_kernel_lines(compared, match, width)))
    if row.kind == "graph":
        return Page(GRAPH_TEXTS[text], tuple(_graph_lines(compared, row.number, text, width)))
    return Page("Everything that differs", tuple(lines(compared.diff, width)))


def _kernel_lines(compared: Compared, match: KernelMatch, width: int) -> Iterator[Line]:
    sides = ((compared.a, match.a), (compared.b, match.b))
    for name, (_, launches) in zip("AB", sides, strict=True):
        for item in launches:
            place = f"  {item}  {few(list(item.lines))}"
            yield fitted([Span(f"{name} ", "dim"), Span(item.kernel), Span(place, "dim")], width)
    if match.basis:
        yield from wrapped(f"matched by {', '.join(match.basis)}", width, "dim")
    for change in match.changes:
        yield from wrapped(change_text(change), width)
    for fusion in compared.diff.fusions:
        if fusion.whole in (*match.a, *match.b):
            yield from wrapped(fusion_text(fusion), width, "warn")
    texts = ["\n\n".join(_source(side, item) for item in launches) for side, launches in sides]
    if any(texts):
        yield Line()
        yield from both_sides(texts[0], texts[1], width)


def _source(side: Side, launch: LaunchId) -> str:
    """A kernel's own lines; a library call's line in the wrapper."""
    for facts in side.graphs:
        code = facts.artifacts.code
        if facts.artifacts.ident == launch.graph and code is not None:
            kernel = code.kernel(launch.kernel)
            if kernel is not None and kernel.source:
                return body_of(kernel)
            return next((call.text for call in code.calls if call.index == launch.call), "")
    return ""


def _graph_lines(compared: Compared, number: int, text: int, width: int) -> Iterator[Line]:
    match = compared.diff.graphs[number]
    for change in match.changes:
        yield from wrapped(change_text(change), width, "dim")
    a, b = (
        "\n\n".join(_graph_text(side, ident, text) for ident in idents)
        for side, idents in ((compared.a, match.a), (compared.b, match.b))
    )
    if not a and not b:
        yield toned(f"neither side has its {GRAPH_TEXTS[text]}", "warn")
        return
    yield from both_sides(a, b, width)


def _graph_text(side: Side, ident: str, text: int) -> str:
    artifacts = next(facts.artifacts for facts in side.graphs if facts.artifacts.ident == ident)
    fx = artifacts.fx_after or artifacts.fx_before
    return (
        fx.text if fx is not None else "",
        artifacts.pre.text if artifacts.pre is not None else "",
        artifacts.post.text if artifacts.post is not None else "",
        artifacts.code.text if artifacts.code is not None else "",
    )[text]


def passes_lines(artifacts: GraphArtifacts, width: int) -> Iterator[Line]:
    """One graph's FX before and after the post-grad passes."""
    yield toned(f"{artifacts.ident}: FX before and after the passes", "accent")
    if artifacts.fx_before is None or artifacts.fx_after is None:
        yield toned("one of the two is missing: there is nothing to compare", "warn")
        return
    yield from both_sides(artifacts.fx_before.text, artifacts.fx_after.text, width)


def both_sides(a: str, b: str, width: int) -> Iterator[Line]:
    """Two texts, lines that are the same but for names beside each other; where there is no room for that,
    below each other, A's marked `-` and B's `+`."""
    ours, theirs = a.split("\n"), b.split("\n")
    if max(len(ours), len(theirs)) > _MOST_LINES:
        yield toned(f"only the first {_MOST_LINES:,} lines of each are compared", "warn")
    rows = list(side_by_side("\n".join(ours[:_MOST_LINES]), "\n".join(theirs[:_MOST_LINES])))
    changed = sum(not row.same for row in rows)
    told = f"{plural(changed, 'different line')} beside names" if changed else "the same but for names"
    yield toned(told, "dim")
    yield from _beside(rows, width) if width >= _BESIDE else _below(rows, width)


def _beside(rows: Iterable[DiffRow], width: int) -> Iterator[Line]:
    half = (width - 3) // 2
    for row in rows:
        left, right = (_numbered(side, half) for side in (row.a, row.b))
        tones: tuple[Tone, Tone] = ("", "") if row.same else ("bad", "good")
        yield line(Span(left, tones[0]), Span(" │ ", "dim"), Span(right, tones[1]))


def _numbered(side: tuple[int, str] | None, width: int) -> str:
    if side is None:
        return " " * width
    return pad(crop(f"{side[0]:>{_NUMBER}} {side[1].expandtabs(4)}", width), width)


def _below(rows: Iterable[DiffRow], width: int) -> Iterator[Line]:
    for row in rows:
        signs: tuple[tuple[str, tuple[int, str] | None, Tone], ...]
        signs = ((" ", row.b, ""),) if row.same else (("-", row.a, "bad"), ("+", row.b, "good"))
        for sign, side, tone in signs:
            if side is not None:
                yield toned(crop(f"{sign} {side[1].expandtabs(4)}", width), tone)
