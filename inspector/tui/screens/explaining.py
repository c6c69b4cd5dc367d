"""Findings of the run: working them out in a thread, and the way to a line of their evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from inspector.present.documents import message_document
from inspector.tui.navigation import GraphTarget, Open, SourceTarget
from inspector.tui.widgets.code_view import CodeView

if TYPE_CHECKING:
    from inspector.model.explain import Evidence, Explanation
    from inspector.model.replay import ReplayResult
    from inspector.tui.destinations import Destination
    from inspector.tui.replaying import ReplaySession

    from .base import InspectorScreen


_NO_LINE = "No line of the program is known for this row."


class Findings:
    """What one screen has worked out. Every screen of the session shows it."""

    def __init__(self, screen: InspectorScreen, session: ReplaySession) -> None:
        self._screen = screen
        self._session = session
        self._started = False
        self.replays: Sequence[ReplayResult] = ()
        """Those that the newest explanation rests on, oldest first."""

    def work_out(self) -> None:
        """Again where something was measured since."""
        if not self._session.explaining:
            self._session.explaining = self._started = True
            self._screen.start(self._work, "explain", self._failed)

    def _work(self) -> None:
        from inspector.explain import explained
        from inspector.hardware.host import this_host
        from inspector.readers.text import collection_paused, keep
        from inspector.tui.replaying import earlier_replays

        run = self._session.run
        replays = earlier_replays(run, partial(self._screen.call_later, self._screen.bar.remark))
        with collection_paused():
            steps = explained(run, replays, this_host())
            explanation = next(steps)
            self._screen.call_later(self._answered, explanation, replays)
            explanation = next(steps, explanation)
        keep()
        self._screen.call_later(self._ended, explanation, replays)

    def _failed(self, error: Exception) -> None:
        self._ended(None, ())
        self._screen.failed("findings cannot be worked out", error)

    def _answered(self, explanation: Explanation, replays: Sequence[ReplayResult]) -> None:
        """The answer, before what stands below its kernels, of which the first screen has nothing."""
        self._session.explanation = explanation
        self.replays = replays
        self._session.changed()

    def _ended(self, explanation: Explanation | None, replays: Sequence[ReplayResult]) -> None:
        self._session.explaining = self._started = False
        if explanation is not None:
            # It is explained by the first rank's graphs, which have been read whole.
            read = (graph.ident for graph in self._session.run.graphs if graph.files and not graph.rank)
            self._session.opened.update(read)
            self._answered(explanation, replays)
        else:
            self._session.changed()

    def measured(self) -> None:
        """Measured times take the place of estimates; without findings on screen nobody waits for them."""
        if self._session.explanation is not None:
            self.work_out()

    def leave(self) -> None:
        if self._started:
            self._session.explaining = False

    # -- their evidence

    def look_up(self, item: Evidence, then: Callable[[Destination], None]) -> None:
        """`then` hears where a line of evidence is."""
        work = partial(self._look_up, item, then)
        self._screen.start(work, "evidence", partial(self._screen.failed, "this line cannot be read"))

    def _look_up(self, item: Evidence, then: Callable[[Destination], None]) -> None:
        from inspector.present.run import events_of
        from inspector.tui.destinations import find_destination

        run = self._session.run
        facts = self._session.facts or run.facts()
        self._screen.call_later(then, find_destination(run, item, events_of(facts)))

    def go_to(self, place: Destination) -> None:
        """A graph's screen at the line, a text at the line, or why there is none."""
        if place.graph is not None and place.place is not None:
            pane, view = place.place
            at = (view, place.line) if place.line is not None else None
            self._screen.post_message(Open(GraphTarget(self._session, place.graph, pane, at)))
        elif place.document is not None:
            self._screen.post_message(Open(SourceTarget(place.document, place.headline, place.remark)))
        else:
            self._screen.bar.remark(place.remark or "there is nothing to show")


class Preview(CodeView):
    """The place that a row's evidence is of, beside the rows where the screen is `wide` cells or more."""

    def __init__(self, findings: Findings, title: str, wide: int) -> None:
        super().__init__(message_document(title, ""), id="evidence")
        self._title = title
        self._findings = findings
        self._wide = wide
        self._item: Evidence | None = None
        self.styles.margin = (0, 0, 0, 1)

    def show_if_wide(self) -> None:
        self.display = self.app.size.width >= self._wide

    def look_at(self, item: Evidence | None) -> None:
        if not self.display or item == self._item:
            return
        self._item = item
        if item is not None:
            self._findings.look_up(item, partial(self._show, item))
        else:
            self.show(message_document(self._title, _NO_LINE))
            self.mark(())

    def _show(self, item: Evidence, place: Destination) -> None:
        if item is self._item:
            text = place.remark or "nothing to show"
            self.show(place.document or message_document(place.headline, text))
            # A cursor that has no focus has a colour but no sign.
            self.mark(((self.cursor, self.cursor),) if place.document is not None else ())
            self.call_after_refresh(self.bring_into_sight)
