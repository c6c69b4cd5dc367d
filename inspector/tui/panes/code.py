"""Code: the launches, and output_code.py."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.present.code import code_document, launches_table

from .pane import Build, Reading


def contents(reading: Reading) -> Iterator[tuple[str, Build]]:
    graph = reading.graph
    yield "code", lambda: code_document(code) if (code := graph.code()) else None
    yield "launches", lambda: launches_table(code) if (code := graph.code()) else None
