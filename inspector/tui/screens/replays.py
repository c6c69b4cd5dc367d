"""What the screens that replay share: the question before it, its progress, stopping it, its results."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from textual.message import Message

from inspector.model.replay import GraphReplay, ReplayResult
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.tui.replaying import QUESTION, REMARK, ReplaySession, can_replay, replay
from inspector.tui.threads import start
from inspector.tui.views.content import clean
from inspector.tui.views.run import plural

from .base import InspectorScreen
from .confirm import ConfirmScreen


class ReplayScreen(InspectorScreen):
    """A screen whose graphs can be replayed; `show_replays` draws what the session knows."""

    class Replayed(Message):
        """News of a replay: a remark, one graph's result, or `done`, a sentence with the whole result."""

        def __init__(
            self,
            progress: str = "",
            result: GraphReplay | None = None,
            done: str = "",
            whole: ReplayResult | None = None,
        ) -> None:
            super().__init__()
            self.progress = progress
            self.result = result
            self.done = done
            self.whole = whole

    def __init__(self, session: ReplaySession) -> None:
        super().__init__()
        self.session = session
        self._started_replay = False

    def show_replays(self) -> None:
        raise NotImplementedError

    def replayed_run(self) -> Run:
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "stop_replay":
            return self.session.running
        return super().check_action(action, parameters)

    def action_stop_replay(self) -> None:
        self.session.stop.set()
        self.bar.remark("stopping…")

    def ask_for_replay(self, graphs: Sequence[CompiledGraph], calls: Sequence[int] = ()) -> None:
        """Replay executes code that came with the run: asked once for each run that is opened."""
        graphs = [graph for graph in graphs if can_replay(graph)]
        if self.session.running:
            self.bar.remark("a replay is running; x stops it")
        elif not graphs:
            self.bar.remark("nothing to replay: it takes an output_code.py on disk")
        elif self.session.trusted:
            self._replay(graphs, calls)
        else:
            self.app.push_screen(ConfirmScreen(QUESTION, REMARK), partial(self._answered, graphs, calls))

    def _answered(self, graphs: Sequence[CompiledGraph], calls: Sequence[int], yes: bool | None) -> None:
        if yes:
            self.session.trusted = True
            self._replay(graphs, calls)
        else:
            self.bar.remark("not replayed")

    def _replay(self, graphs: Sequence[CompiledGraph], calls: Sequence[int]) -> None:
        self.session.running = self._started_replay = True
        # One for each replay: a thread that is still ending must not miss its own.
        stop = self.session.stop = threading.Event()
        self.refresh_bindings()
        what = f"launch {calls[0]}" if len(calls) == 1 else plural(len(graphs), "graph")
        self.bar.remark(f"replaying {what}…")
        start(self, partial(self._replay_in_thread, graphs, calls, stop), "replay")

    def _replay_in_thread(
        self, graphs: Sequence[CompiledGraph], calls: Sequence[int], stop: threading.Event
    ) -> None:
        whole = None
        try:
            whole = replay(
                self.replayed_run(),
                graphs,
                lambda text, result: self.post_message(self.Replayed(text, result)),
                stop.is_set,
                calls,
            )
            done = "replayed"
        except Exception as error:
            done = clean(f"replay failed: {error}")
        done = "replay stopped" if stop.is_set() else done
        self.post_message(self.Replayed(done=done, whole=whole))

    def on_replay_screen_replayed(self, message: Replayed) -> None:
        if message.result is not None:
            self.session.add_graph(message.result)
        if message.whole is not None:
            self.session.add_result(message.whole)
        if message.done:
            self.session.running = self._started_replay = False
        # A graph may have been opened since: it shows what its run's screen hears, and can stop it.
        for screen in self.app.screen_stack:
            if isinstance(screen, ReplayScreen) and screen.session is self.session:
                screen.take_news(message)

    def take_news(self, message: Replayed) -> None:
        if message.result is not None or message.whole is not None:
            self.show_replays()
        if message.progress or message.done:
            self.bar.remark(clean(message.progress or message.done))
        self.refresh_bindings()

    def on_unmount(self) -> None:
        """A replay does not outlive the screen that started it, which hears of its end no more."""
        if self._started_replay:
            self.session.stop.set()
            self.session.running = False
