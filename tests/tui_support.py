"""Shared by the tests of the TUI: waiting until nothing is left to do, and reading what is on screen.

Textual's pilot takes a process that uses little of the processor for one that has nothing to do, which may be
one that gets none of it. In these tests it waits for messages, drawing and callbacks instead, however long
that takes, and not a moment longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import textual.app
import textual.pilot
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, TextArea
from waiting import PATIENCE_S

from inspector.readers.run import Run
from inspector.tui.app import InspectorApp
from inspector.tui.navigation import GraphsTarget
from inspector.tui.replaying import ReplaySession
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.run import RunScreen

_STEP_S = 0.005
_QUIET_PASSES = 3
"""What a handler that was under way has sent on is in a queue by the next pass, or done."""
_MOST_PASSES = 60
"""A screen that a clock draws anew all the time has by then long done what it was to do."""


def _stay(_widget: object) -> None:
    pass


# A cursor that blinks makes a picture depend on the moment in which it is taken.
Input._toggle_cursor = _stay  # type: ignore[method-assign, assignment]
TextArea._toggle_cursor_blink_visible = _stay  # type: ignore[method-assign, assignment]


async def _at_once(*_seconds: float) -> None:
    await asyncio.sleep(0)


async def _all_pumps_came_round(app: App[Any]) -> bool:
    """Whether each widget of the screen on top has handled what it had, before the program ends. A message to
    a screen below would have both drawn anew (textual/screen.py, `_compositor_refresh`)."""
    pumps: list[Any] = [app, *app.screen.walk_children(with_self=True)]
    left: set[Any] = set()

    def came(pump: Any) -> None:
        left.discard(pump)

    for pump in pumps:
        if pump.call_later(came, pump):
            left.add(pump)
    end = time.monotonic() + PATIENCE_S
    while left & {app, *app._registry}:
        assert time.monotonic() < end, f"these do not come round: {left}"
        if _is_ending(app):
            return False
        await asyncio.sleep(_STEP_S / 10)
    return True


def _is_ending(app: App[Any]) -> bool:
    return app._exit or app._exception is not None or not app._running


def _has_nothing_to_do(app: App[Any]) -> bool:
    # A line that is scrolled by is an animation of some frames.
    if not app.animator._complete_event.is_set():
        return False
    if any(pump._message_queue.qsize() or pump._next_callbacks for pump in [app, *app._registry]):
        return False
    screen: Screen[Any] = app.screen
    drawing = screen._layout_required or screen._scroll_required or screen._repaint_required
    return not (drawing or screen._dirty_widgets or screen._callbacks or app._batch_count)


async def quiet(app: App[Any]) -> bool:
    """Wait until all that was sent is handled and drawn; not for threads. False where the program ends."""
    passes = 0
    for _ in range(_MOST_PASSES):
        for _ in range(4):
            await asyncio.sleep(0)
        if _is_ending(app):
            return False
        passes = passes + 1 if await _all_pumps_came_round(app) and _has_nothing_to_do(app) else 0
        # A new size is told to the screens by a timer of the app's (textual/app.py, `_on_resize`).
        end = time.monotonic() + PATIENCE_S
        while app._resize_timer is not None and not _is_ending(app) and time.monotonic() < end:
            await asyncio.sleep(_STEP_S)
            passes = 0
        if passes == _QUIET_PASSES:
            break
        if not passes:
            await asyncio.sleep(_STEP_S)
    return True


async def _wait_for_screen(pilot: Pilot[Any], timeout: float = 0.0) -> bool:
    return await quiet(pilot.app)


async def _press(pilot: Pilot[Any], *keys: str) -> None:
    for key in keys:
        await pilot.app._press_keys([key])
        await quiet(pilot.app)


textual.app.wait_for_idle = textual.pilot.wait_for_idle = _at_once  # type: ignore[assignment]
Pilot._wait_for_screen = _wait_for_screen  # type: ignore[assignment, method-assign]
Pilot.press = _press  # type: ignore[assignment, method-assign]


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until all threads have reported and what they reported is drawn, those too that it has started."""
    end = time.monotonic() + PATIENCE_S
    # Not `wait_for_complete`, which raises for a worker whose screen is gone.
    while await quiet(pilot.app) and (left := [w for w in pilot.app.workers if not w.is_finished]):
        assert time.monotonic() < end, f"these do not end: {left}"
        await asyncio.sleep(_STEP_S)


async def press(pilot: Pilot[Any], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
    await settle(pilot)


async def until(pilot: Pilot[Any], what: Callable[[], object]) -> None:
    """Wait for something that no worker of the screen brings about: a clock, a child, a stand-in's thread."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "waited in vain:\n" + text(pilot.app)
        await asyncio.sleep(0.02)
        await quiet(pilot.app)


def lines(app: App[Any]) -> list[str]:
    """The screen as text, line by line."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.size)]


def text(app: App[Any]) -> str:
    return "\n".join(lines(app))


def before(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """For snapshots: wait, then press keys one by one, waiting after each."""

    async def run(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        for key in keys:
            await press(pilot, key)

    return run


def graph_folders(run: Path) -> list[Path]:
    return sorted(path.parent for path in run.rglob("output_code.py"))


class GraphsApp(InspectorApp):
    """Begins at what lies in a run, as one key on its first screen shows it."""

    def get_default_screen(self) -> Screen[Any]:
        screen = super().get_default_screen()
        if not isinstance(screen, FirstScreen):
            return screen
        session = ReplaySession()
        session.run = Run(screen.located.opened())
        return RunScreen(GraphsTarget(session))
