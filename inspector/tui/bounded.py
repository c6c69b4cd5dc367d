"""The boundary around everything that keys, clicks, timers, drawing and threads' messages set off in the TUI.

Textual ends the program with a handler that fails. What a run says may make one fail that nobody foresaw, and
then a remark is enough: the other views are as good as before.
"""

from __future__ import annotations

import traceback
from typing import Any

from rich.segment import Segment
from textual.app import App
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.geometry import Region
from textual.message import Message
from textual.message_pump import MessagePump
from textual.strip import Strip
from textual.worker import WorkerFailed

from inspector.model.problem import told
from inspector.readers.text import let_go

_MOST_LEFT = 12
"""Screens whose memory is not worth a collection: some 300 KB each."""
_LEFT_S = 0.4
"""After which a screen that was left is held by nobody: Textual's own tasks and timers are."""


class Bounded(MessagePump):
    """The app, a screen or a widget whose handlers may fail."""

    async def _dispatch_message(self, message: Message) -> None:
        try:
            await super()._dispatch_message(message)
        except Exception as error:  # noqa: BLE001
            report(self.app, error)


class Drawn(Bounded):
    """A widget that may also fail to draw itself, and says so in its place."""

    def render_lines(self, crop: Region) -> list[Strip]:
        try:
            strips: list[Strip] = super().render_lines(crop)  # type: ignore[misc]
            return strips
        except Exception as error:  # noqa: BLE001
            report_once(self.app, error)
            said = Strip([Segment("this cannot be drawn")])
            return [said.adjust_cell_length(crop.width), *[Strip.blank(crop.width)] * (crop.height - 1)]


class BoundedApp(Bounded, App[None]):
    """What Textual would end the program for is said once the first screen is there: timers, layout, what
    waits for a refresh."""

    def __init__(self, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.first_paint: float | None = None
        self.failures: set[tuple[object, ...]] = set()
        self._left = 0

    def let_go_of_screen(self, with_run: bool) -> None:
        """A screen is gone, `with_run` that was open for it. Nothing else would free it: screens are full of
        circles, and a full collection comes after 250 million objects (`InspectorApp.on_load`)."""
        self._left += 1
        if self._running and (with_run or self._left >= _MOST_LEFT):
            self._left = 0
            self.set_timer(_LEFT_S, let_go)

    async def _dispatch_action(
        self, namespace: DOMNode, action_name: str, params: tuple[object, ...]
    ) -> bool:
        try:
            return await super()._dispatch_action(namespace, action_name, params)
        except KeyError:
            if isinstance(namespace, CommandPalette):
                # In a terminal of four rows none is left for its list, whose pages it cannot turn
                # (textual/widgets/_option_list.py, `_move_page`).
                return True
            raise

    def _handle_exception(self, error: Exception) -> None:
        if self.first_paint is None:
            super()._handle_exception(error)
            return
        if isinstance(error, WorkerFailed) and isinstance(error.error, NoMatches):
            # Threads of ours end otherwise: it is Textual's palette, which was closed while it gathers and
            # looks for its own list (textual/command.py, `_gather_commands`).
            return
        try:
            report_once(self, error)
        except Exception:  # noqa: BLE001
            super()._handle_exception(error)


def report(app: App[Any], error: Exception) -> None:
    """Say on the screen what failed; what is there stays."""
    app.notify(f"this cannot be shown: {told(error)}", severity="error", markup=False)


def report_once(app: App[Any], error: Exception) -> None:
    """What fails again with every tick and every drawing is said for each line of code that fails."""
    frame = next(iter(traceback.extract_tb(error.__traceback__)[-1:]), None)
    where = (type(error), frame.filename, frame.lineno) if frame is not None else (type(error),)
    failures = app.failures if isinstance(app, BoundedApp) else set()
    if where not in failures:
        failures.add(where)
        report(app, error)
