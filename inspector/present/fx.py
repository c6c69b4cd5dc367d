"""An FX graph as a text whose lines stand for nodes and for lines of the user's program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from inspector.model.fx import FxGraph
from inspector.model.links import Ref, Related
from inspector.units import plural

from .content import RefIndex, Rows
from .documents import Document, split_lines, whole

Stage = Literal["fx_before", "fx_after"]

_TITLES: dict[Stage, str] = {
    "fx_before": "FX before post-grad passes",
    "fx_after": "FX after post-grad passes",
}


def fx_document(graph: FxGraph, stage: Stage) -> Document:
    lines = split_lines(graph.text)
    refs = RefIndex(_spans(graph, lines, stage))

    def find(related: Related) -> tuple[Rows, ...]:
        names = related.fx_before if stage == "fx_before" else related.fx_after
        nodes = refs.rows_of(Ref(stage, name) for name in names)
        # A source line is shown where its nodes are; its comment only where there are none.
        return nodes or refs.rows_of(Ref("source", place) for place in related.sources)

    return Document(
        title=f"{_TITLES[stage]} · {plural(len(graph.operations), 'node')}",
        lines=lines,
        regions=whole(lines, "python"),
        refs=refs,
        find=find,
        start=graph.operations[0].line - 1 if graph.operations else 0,
    )


def with_waste(document: Document, stage: Stage, texts: Mapping[str, str]) -> Document:
    """With a remark behind each node that kernels compute in vain (`inspector.present.waste.node_texts`)."""
    rows = ((document.refs.rows_of([Ref(stage, name)]), text) for name, text in texts.items())
    return replace(document, notes={first: f"← {text}" for spans, text in rows for first, _ in spans})


def _spans(graph: FxGraph, lines: tuple[str, ...], stage: Stage) -> Iterator[tuple[int, int, Ref]]:
    """Each node's line, and the comment over the first node of each source line."""
    place = None
    for node in graph.operations:
        row = node.line - 1
        yield row, row, Ref(stage, node.name)
        if node.source is not None and str(node.source) != place:
            place = str(node.source)
            above = row - 1
            while above >= 0 and lines[above].lstrip().startswith("#"):
                yield above, above, Ref("source", place)
                above -= 1
