"""Kernels: each kernel or launch; its result and source follow the cursor (`kernels_pane`)."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.present.code import kernels_table

from .pane import Build, Reading


def contents(reading: Reading) -> Iterator[tuple[str, Build]]:
    graph = reading.graph
    yield "kernels", lambda: kernels_table(code, None, {}) if (code := graph.code()) else None
