"""What the screens that replay share: the question before it, its progress, stopping it, its results."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from textual.message import Message

from inspector.model.edits import KernelEdit
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.present.kernel_result import numbered_edit
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.replay.trust import foreign
from inspector.text import sentence
from inspector.tui.navigation import Ask
from inspector.tui.replaying import (
    EditJob,
    ReplaySession,
    can_replay,
    replay,
    replay_changed,
)
from inspector.tui.threads import start
from inspector.units import plural

from .base import InspectorScreen


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
            edit: KernelEdit | None = None,
        ) -> None:
            super().__init__()
            self.progress = progress
            self.result = result
            self.done = done
            self.whole = whole
            self.edit = edit

        @property
        def has_results(self) -> bool:
            return any(item is not None for item in (self.result, self.whole, self.edit))

    def __init__(self, session: ReplaySession) -> None:
        super().__init__()
        self.session = session
        self._started_replay = False

    def show_replays(self) -> None:
        raise NotImplementedError

    def replayed_run(self) -> Run:
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "stop":
            return self.session.running
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        self.session.stop.set()
        self.bar.remark("stopping…")

    def ask_for_replay(
        self, graphs: Sequence[CompiledGraph], call: int | None = None, edit: EditJob | None = None
    ) -> None:
        """Replay executes code of the run: asked once while it is open.

        `call`: only this launch of one graph; `edit`: with another source of its kernel, beside the original.
        """
        graphs = [graph for graph in graphs if can_replay(graph)]
        if self.session.running:
            self.bar.remark(f"a replay is running; {self.key('stop')} stops it")
        elif not graphs:
            self.bar.remark("nothing to replay: it takes an output_code.py on disk")
        elif self.session.trusted:
            self._replay(graphs, call, edit)
        else:
            answered = partial(self._answered, graphs, call, edit)
            why = foreign(self.replayed_run())
            remark = f"{sentence(why)}\nOnly replay what you trust." if why else "It was compiled here."
            question = "Replay runs this folder's code on this machine."
            self.post_message(Ask(question, f"{remark} {self.stopping}", answered))

    def _answered(
        self, graphs: Sequence[CompiledGraph], call: int | None, edit: EditJob | None, yes: bool
    ) -> None:
        if yes:
            self.session.trusted = True
            self._replay(graphs, call, edit)
        else:
            self.bar.remark("not replayed")

    def _replay(self, graphs: Sequence[CompiledGraph], call: int | None, edit: EditJob | None) -> None:
        self.session.running = self._started_replay = True
        # One for each replay: a thread that is still ending must not miss its own.
        stop = self.session.stop = threading.Event()
        self.refresh_bindings()
        what = plural(len(graphs), "graph") if call is None else f"launch {call}"
        self.bar.remark(f"replaying {what}…")
        start(self, partial(self._replay_in_thread, graphs, call, edit, stop), "replay")

    def _replay_in_thread(
        self,
        graphs: Sequence[CompiledGraph],
        call: int | None,
        edit: EditJob | None,
        stop: threading.Event,
    ) -> None:
        def tell(text: str, result: GraphReplay | None) -> None:
            self.post_message(self.Replayed(text, result))

        whole = changed = None
        try:
            if edit is not None:
                changed = replay_changed(edit, tell, stop.is_set)
            else:
                whole = replay(self.replayed_run(), graphs, tell, stop.is_set, call)
            done = "replayed" if changed is None else numbered_edit(changed)
        except Exception as error:
            done = f"replay failed: {error}"
        done = "replay stopped" if stop.is_set() else done
        self.post_message(self.Replayed(done=done, whole=whole, edit=changed))

    def on_replay_screen_replayed(self, message: Replayed) -> None:
        if message.result is not None:
            self.session.add_graph(message.result)
        if message.whole is not None:
            self.session.add_result(message.whole)
        if message.edit is not None:
            self.session.add_edit(message.edit)
        if message.done:
            self.session.running = self._started_replay = False
        # A graph may have been opened since: it shows what its run's screen hears, and can stop it.
        for screen in self.app.screen_stack:
            if isinstance(screen, ReplayScreen) and screen.session is self.session:
                screen.take_news(message)

    def take_news(self, message: Replayed) -> None:
        if message.has_results:
            self.show_replays()
        if message.progress or message.done:
            self.bar.remark(message.progress or message.done)
        self.refresh_bindings()

    def on_unmount(self) -> None:
        """A replay does not outlive the screen that started it, which hears of its end no more."""
        if self._started_replay:
            self.session.stop.set()
            self.session.running = False
            for screen in self.app.screen_stack:
                screen.refresh_bindings()
