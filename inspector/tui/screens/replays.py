"""Replaying from a screen: the question before it, its progress, stopping it; results go into the session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from inspector.model.edits import KernelEdit
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.present.kernel_result import numbered_edit
from inspector.readers.graph import CompiledGraph
from inspector.replay.trust import foreign
from inspector.text import sentence
from inspector.tui.navigation import Ask
from inspector.tui.replaying import EditJob, ReplaySession, can_replay, replay, replay_changed
from inspector.units import plural

from .base import InspectorScreen


class Replays:
    """What one screen replays. Every screen of the session shows what comes of it, and can stop it."""

    def __init__(self, screen: InspectorScreen, session: ReplaySession, measured: Callable[[], None]) -> None:
        """`measured` is called once there are new times."""
        self._screen = screen
        self._measured = measured
        self._session = session
        self._started = False

    def stop(self) -> None:
        self._session.stop.set()
        self._screen.bar.remark("stopping…")

    def ask(
        self, graphs: Sequence[CompiledGraph], call: int | None = None, edit: EditJob | None = None
    ) -> None:
        """Replay executes code of the run: asked once while it is open.

        `call`: only this launch of one graph; `edit`: with another source of its kernel, beside the original.
        """
        screen, session = self._screen, self._session
        graphs = [graph for graph in graphs if can_replay(graph)]
        if session.running:
            screen.bar.remark(f"a replay is running; {screen.key('stop')} stops it")
        elif not graphs:
            screen.bar.remark("nothing to replay: it takes an output_code.py on disk")
        elif session.trusted:
            self._begin(graphs, call, edit)
        else:
            why = foreign(session.run)
            remark = f"{sentence(why)}\nOnly replay what you trust." if why else "It counts as made here."
            question = "Replay runs this folder's code on this machine."
            answered = partial(self._answered, graphs, call, edit)
            screen.post_message(Ask(question, f"{remark} {screen.stopping}", answered))

    def _answered(
        self, graphs: Sequence[CompiledGraph], call: int | None, edit: EditJob | None, yes: bool
    ) -> None:
        if yes:
            self._session.trusted = True
            self._begin(graphs, call, edit)
        else:
            self._screen.bar.remark("not replayed")

    def _begin(self, graphs: Sequence[CompiledGraph], call: int | None, edit: EditJob | None) -> None:
        self._session.running = self._started = True
        # One for each replay: a thread that is still ending must not miss its own.
        stop = self._session.stop = threading.Event()
        self._screen.refresh_bindings()
        what = plural(len(graphs), "graph") if call is None else f"launch {call}"
        self._screen.bar.remark(f"replaying {what}…")
        self._screen.start(
            partial(self._work, graphs, call, edit, stop), "replay", partial(self._failed, stop)
        )

    def _work(
        self,
        graphs: Sequence[CompiledGraph],
        call: int | None,
        edit: EditJob | None,
        stop: threading.Event,
    ) -> None:
        def tell(text: str, result: GraphReplay | None) -> None:
            self._screen.call_later(self._progress, text, result)

        result: ReplayResult | KernelEdit | None
        if edit is not None:
            result = replay_changed(edit, tell, stop.is_set)
        else:
            result = replay(self._session.run, graphs, tell, stop.is_set, call)
        done = numbered_edit(result) if isinstance(result, KernelEdit) else "replayed"
        self._screen.call_later(self._ended, "replay stopped" if stop.is_set() else done, result)

    def _progress(self, text: str, result: GraphReplay | None) -> None:
        if result is not None:
            self._session.add_graph(result)
            self._session.changed()
        if text:
            self._session.say(text)

    def _failed(self, stop: threading.Event, error: Exception) -> None:
        self._ended("replay stopped" if stop.is_set() else f"replay failed: {error}", None)

    def _ended(self, done: str, result: ReplayResult | KernelEdit | None) -> None:
        if isinstance(result, KernelEdit):
            self._session.add_edit(result)
        elif result is not None:
            self._session.add_result(result)
        self._session.running = self._started = False
        self._session.changed()
        self._session.say(done)
        if isinstance(result, ReplayResult):
            self._measured()

    def leave(self) -> None:
        """A replay does not outlive the screen that started it, which hears of its end no more."""
        if self._started:
            self._session.stop.set()
            self._session.running = False
            self._session.changed()
