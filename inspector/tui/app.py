"""The application: which screen comes first, what is the same everywhere, and how it is started."""

from __future__ import annotations

import asyncio
import codecs
import gc
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.command import Provider
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import Theme

from inspector.readers.locate import find_runs, locate
from inspector.text import clean, plain_cells, sentence

from .actions import bindings
from .bounded import BoundedApp
from .navigation import (
    Ask,
    DiffTarget,
    HelpTarget,
    IndexTarget,
    Job,
    Left,
    LineTarget,
    Open,
    RunTarget,
    Started,
    Target,
)
from .routes import screen_for
from .screens.base import InspectorScreen
from .settings import load_settings, remember_theme, settings_path
from .terminal import LOOK_S, hung_up, lasting
from .widgets.code_view import CodeView

if TYPE_CHECKING:
    from inspector.present.query import Catalogue


def _providers(name: str) -> Callable[[], type[Provider]]:
    """A palette provider that is imported when the palette first opens."""

    def load() -> type[Provider]:
        from inspector.tui import commands

        provider: type[Provider] = getattr(commands, name)
        return provider

    return load


QUIET = Theme(
    name="inspector",
    primary="#7aa2d6",
    secondary="#86b8b0",
    accent="#d8a860",
    success="#8fbc86",
    warning="#d8a860",
    error="#d97b6c",
    foreground="#c9ced6",
    background="#15171c",
    surface="#1c1f26",
    panel="#272c36",
    dark=True,
)
"""The default: one dark background, few colours, none of them loud."""


class InspectorApp(BoundedApp):
    """Browses one run, two side by side, the runs below a folder, or an index of many in `catalogue`.

    `path` None means the current folder. Raises InspectorError, before anything is drawn, where
    `path` cannot be opened. `first_paint` is `time.perf_counter()` once the first screen is drawn.
    """

    CSS_PATH = Path(__file__).with_name("inspector.tcss")
    TITLE = "inspector"
    BINDINGS = bindings("app")
    COMMANDS = {  # noqa: RUF012
        _providers("ActionCommands"),
        _providers("PlaceCommands"),
        _providers("ThemeCommands"),
    }

    def __init__(
        self,
        path: str | None = None,
        exit_after_paint: bool = False,
        against: str | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        # With the terminal's own colours, Textual's filter leaves none at all; otherwise it leaves greys.
        colourless = bool(os.environ.get("NO_COLOR"))
        super().__init__(ansi_color=True if colourless else None)
        self._catalogue = catalogue
        self.located = [] if catalogue is not None else find_runs(path)
        self._pair = (locate(path), locate(against)) if path is not None and against is not None else None
        self.below = "" if path is None else path
        self.jobs: list[Job] = []
        self._ahead: list[Target] = []
        """Targets that were gone back from, the last one first to go to."""
        self.wraps = False
        """Whether long lines of texts go on below."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exit_after_paint = exit_after_paint
        self._bare = path is None

        self.register_theme(QUIET)
        self.settings = load_settings(settings_path())
        self.keymap = self.settings.keys
        self.set_keymap(self.keymap)
        theme = self.settings.theme or QUIET.name
        if theme not in self.available_themes:
            self.settings.problem = self.settings.problem or f"{settings_path()}: no theme is called {theme}"
            theme = QUIET.name
        self.theme = "ansi-dark" if colourless else theme
        self._colourless = colourless

    def on_load(self) -> None:
        # Drawing makes a hundred thousand short-lived objects a second, none of them in cycles. With
        # Python's thresholds, every few keys would wait for a full collection.
        gc.set_threshold(5_000, 50, 1_000)

        self._loop = asyncio.get_running_loop()

    def exit_from_outside(self, *_signal_and_frame: object) -> None:
        """A signal's handler: leave as soon as the loop comes round."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.exit)

    def _leave_without_terminal(self) -> None:
        if hung_up(sys.stdin.fileno()):
            self.exit()

    def get_driver_class(self) -> type[Driver]:
        return lasting(super().get_driver_class())

    def get_default_screen(self) -> Screen[Any]:
        if self._catalogue is not None:
            return screen_for(IndexTarget(self._catalogue))
        if self._pair is not None:
            return screen_for(DiffTarget(*self._pair))
        if len(self.located) == 1 and not self._bare:
            return screen_for(RunTarget(self.located[0]))
        from .screens.runs import RunsScreen

        return RunsScreen(self.located, self.below)

    def _remember_theme(self, theme: Theme) -> None:
        if problem := remember_theme(settings_path(), theme.name):
            self.notify(problem, severity="warning", markup=False)

    def on_open(self, message: Open) -> None:
        if not isinstance(message.target, HelpTarget | LineTarget):
            self._ahead.clear()
        self._go_to(message)

    def on_left(self, message: Left) -> None:
        if message.target is not None:
            self._ahead.append(message.target)

    def on_forward(self) -> None:
        if self._ahead:
            self._go_to(Open(self._ahead.pop()))

    def on_wrap(self) -> None:
        self.wraps = not self.wraps
        for view in (view for screen in self.screen_stack for view in screen.query(CodeView)):
            view.rewrap()
        if isinstance(self.screen, InspectorScreen):
            said = "long lines go on below" if self.wraps else "long lines are cut at the edge"
            self.screen.bar.remark(said)

    def _go_to(self, message: Open) -> None:
        screen = screen_for(message.target)
        if isinstance(screen, InspectorScreen):
            screen.came_by = message.target
        while message.instead and len(self.screen_stack) > 1 and type(self.screen) is type(screen):
            self.pop_screen()
        self.push_screen(screen)

    def on_ask(self, message: Ask) -> None:
        """One question at a time: what is asked while one is open is answered by that one's end."""
        from .screens.confirm import ConfirmScreen

        if not isinstance(self.screen, ConfirmScreen):
            screen = ConfirmScreen(message.question, message.remark)
            self.push_screen(screen, lambda yes: message.answered(bool(yes)))

    def on_started(self, message: Started) -> None:
        self.jobs.append(message.job)

    async def action_quit(self) -> None:
        """Leave; what runs is stopped first, if that is wanted."""
        running = [job for job in self.jobs if job.live]
        named = [job.what for job in running]
        commands = [clean(job.command) for job in running]
        stack = [screen for screen in self.screen_stack if isinstance(screen, InspectorScreen)]
        named += dict.fromkeys(what for screen in stack if (what := screen.running))
        if not named:
            self.exit()
            return
        question = f"{sentence(' and '.join(named))[:-1]} is running. Stop and quit?"
        remark = "It is interrupted, then killed; what was written until then stays."
        self.post_message(Ask(question, "\n".join([*commands, remark]), partial(self._quit_after, running)))

    def _quit_after(self, running: Sequence[Job], yes: bool) -> None:
        from .threads import start

        if yes:
            start(self, partial(self._end_jobs, running), "quit")

    def _end_jobs(self, running: Sequence[Job]) -> None:
        for job in running:
            job.end()
        self.call_from_thread(self.exit)

    def on_ready(self) -> None:
        if not self.is_headless and sys.stdin is not None and sys.stdin.isatty():
            self.set_interval(LOOK_S, self._leave_without_terminal)
        if self.settings.problem:
            self.notify(self.settings.problem, severity="warning", markup=False)
        if not self._colourless:
            self.theme_changed_signal.subscribe(self.screen, self._remember_theme)
        self.screen.call_after_refresh(self._painted)

    def _painted(self) -> None:
        self.first_paint = time.perf_counter()
        if self._exit_after_paint:
            self.exit()


def run_tui(
    path: str | None = None,
    exit_after_paint: bool = False,
    headless: bool = False,
    against: str | None = None,
    opening: AbstractContextManager[None] | None = None,
    catalogue: Catalogue | None = None,
) -> int:
    """Browse `path`, `path` beside the run `against`, the index in `catalogue`, or the runs below the current
    folder; the exit code.

    `exit_after_paint` leaves once the first screen is drawn, to measure how long that takes. `opening` is
    entered while `path` is opened, before there is a screen.
    """
    if isinstance(sys.__stderr__, io.TextIOWrapper):
        # What Textual draws on (textual/drivers/linux_driver.py).
        codecs.register_error("cells", plain_cells)
        sys.__stderr__.reconfigure(errors="cells")
    with opening or nullcontext():
        app = InspectorApp(path, exit_after_paint, against, catalogue)
    # A terminal that is closed ends us, and says so more than once: what we run must end with us, in order.
    in_main = threading.current_thread() is threading.main_thread()
    ending = (signal.SIGTERM, signal.SIGHUP) if in_main else ()
    before = {number: signal.signal(number, app.exit_from_outside) for number in ending}
    try:
        app.run(headless=headless)
    finally:
        for job in app.jobs:
            if job.live:
                job.end()
        for number, handler in before.items():
            signal.signal(number, handler)
    return app.return_code or 0
