"""FX: the graph before and after the post-grad passes."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.present.fx import fx_document

from .pane import Build, Reading


def contents(reading: Reading) -> Iterator[tuple[str, Build]]:
    graph = reading.graph
    yield "fx-after", lambda: fx_document(fx, "fx_after") if (fx := graph.fx("transformed")) else None
    yield "fx-before", lambda: fx_document(fx, "fx_before") if (fx := graph.fx("readable")) else None
