"""Shared by the tests of the TUI: waiting for its threads, and reading what is on screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from inspector.tui.app import InspectorApp


async def settle(pilot: Pilot[Any], rounds: int = 4) -> None:
    """Wait until all threads have reported and what they reported is drawn; each may start others."""
    for _ in range(rounds):
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()


async def press(pilot: Pilot[Any], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
    await settle(pilot, rounds=2)


def lines(app: InspectorApp) -> list[str]:
    """The screen as text, line by line."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.size)]


def text(app: InspectorApp) -> str:
    return "\n".join(lines(app))


def before(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """For snapshots: wait, then press keys one by one, waiting after each."""

    async def run(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        for key in keys:
            await press(pilot, key)
        await settle(pilot)

    return run


def graph_folders(run: Path) -> list[Path]:
    return sorted(path.parent for path in run.rglob("output_code.py"))
