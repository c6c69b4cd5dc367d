"""IR: the schedule before and after fusion, as text and as outlines that are aligned."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from inspector.present.content import Content
from inspector.present.ir import ir_document, ir_outlines
from inspector.readers.graph import CompiledGraph

from .pane import Build, Reading


def contents(reading: Reading) -> Iterator[tuple[str, Build]]:
    for side, (view, stage, other) in enumerate((("ir-before", "pre", "post"), ("ir-after", "post", "pre"))):
        yield f"{view}-outline", partial(_outline, reading.graph, side)
        yield view, partial(_text, reading.graph, stage, other)


def _text(graph: CompiledGraph, stage: str, other: str) -> Content | None:
    schedule = graph.schedule(stage)
    return ir_document(schedule, graph.schedule(other)) if schedule else None


def _outline(graph: CompiledGraph, side: int) -> Content | None:
    return ir_outlines(graph.schedule("pre"), graph.schedule("post"))[side]
