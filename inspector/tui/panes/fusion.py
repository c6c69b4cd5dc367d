"""Fusion: what was missed, and both sides; lanes, reasons and boxes follow the cursor (`screens.fusion`)."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.tui.fusing import missed, sides

from .pane import Build, Reading


def contents(reading: Reading) -> Iterator[tuple[str, Build]]:
    yield "missed", lambda: missed(reading.fusion)
    yield "sides", lambda: sides(reading.fusion)
