"""Replaying from a screen: the question before it, its progress, stopping it; results go into the session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from inspector.text import sentence
from inspector.tui.navigation import Ask
from inspector.tui.replaying import EditJob, ReplaySession, can_replay, replay, replay_changed
from inspector.units import plural

if TYPE_CHECKING:
    from inspector.model.edits import KernelEdit
    from inspector.model.replay import GraphReplay, ReplayResult
    from inspector.readers.graph import CompiledGraph

    from .base import InspectorScreen

    Tell = Callable[[str, GraphReplay | None], object]
    Job = Callable[[Tell, Callable[[], bool]], ReplayResult | KernelEdit | None]
    """What a replay does: it tells of its progress, and asks whether it is to stop."""


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
        """Replay executes code of the run: asked once while it is open, again where more is foreign.

        `call`: only this launch of one graph; `edit`: with another source of its kernel, beside the original.
        """
        from inspector.replay.trust import foreign, what_runs

        screen, session = self._screen, self._session
        graphs = [graph for graph in graphs if can_replay(graph)]
        what = plural(len(graphs), "graph") if call is None else f"launch {call}"
        job = partial(replay, session.run, graphs, call=call)
        begin = partial(self._begin, what, job if edit is None else partial(replay_changed, edit))
        if session.running:
            screen.bar.remark(f"a replay is running; {screen.key('stop')} stops it")
        elif not graphs:
            screen.bar.remark("nothing to replay: it takes an output_code.py on disk")
        elif (why := foreign(session.run, graphs)) in session.trusted:
            begin()
        else:
            own = "You captured it here, and what runs is unchanged since."
            remark = f"{sentence(why)}\nOnly replay what you trust." if why else own
            remark = f"{what_runs(graphs)}\n{remark}"
            question = "Replay runs this folder's code on this machine."
            answered = partial(self._answered, begin, why)
            screen.post_message(Ask(question, f"{remark} {screen.stopping}", answered))

    def _answered(self, begin: Callable[[], None], why: str | None, yes: bool) -> None:
        if yes:
            self._session.trusted.add(why)
            # The question may have come up when the user had already gone back.
            if self._screen.is_attached:
                begin()
        else:
            self._screen.bar.remark("not replayed")

    def _begin(self, what: str, job: Job) -> None:
        self._session.running = self._started = True
        # One for each replay: a thread that is still ending must not miss its own.
        stop = self._session.stop = threading.Event()
        self._screen.refresh_bindings()
        self._screen.bar.remark(f"replaying {what}…")
        self._screen.start(partial(self._work, job, stop), "replay", partial(self._failed, stop))

    def _work(self, job: Job, stop: threading.Event) -> None:
        from inspector.model.edits import KernelEdit
        from inspector.present.kernel_result import numbered_edit

        def tell(text: str, result: GraphReplay | None) -> None:
            self._screen.call_later(self._progress, text, result)

        result = job(tell, stop.is_set)
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
        from inspector.model.edits import KernelEdit
        from inspector.model.replay import ReplayResult

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
