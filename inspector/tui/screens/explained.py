"""What the screens share that show findings: working them out in a thread, and going to their evidence."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message

from inspector.model.explain import Evidence, Explanation
from inspector.present.run import events_of
from inspector.tui.navigation import GraphTarget, Open, SourceTarget
from inspector.tui.replaying import ReplaySession
from inspector.tui.threads import start

from .base import WorkFailed
from .replays import ReplayScreen

if TYPE_CHECKING:
    from inspector.tui.destinations import Destination


class ExplainedScreen(ReplayScreen):
    """`show_explanation` draws what the session knows; every screen of the session hears of it."""

    class Explained(Message):
        """The explanation, or None where it could not be worked out."""

        def __init__(self, explanation: Explanation | None) -> None:
            super().__init__()
            self.explanation = explanation

    class Found(Message):
        """Where a line of evidence is."""

        def __init__(self, item: Evidence, destination: Destination) -> None:
            super().__init__()
            self.item = item
            self.destination = destination

    def __init__(self, session: ReplaySession) -> None:
        super().__init__(session)
        self._started_explaining = False

    def show_explanation(self) -> None:
        raise NotImplementedError

    def begin_explaining(self) -> None:
        """Work the findings out, again where something was measured since."""
        if not self.session.explaining:
            self.session.explaining = self._started_explaining = True
            start(self, self._explain, "explain")

    def _explain(self) -> None:
        from inspector.explain import explain
        from inspector.hardware.host import this_host
        from inspector.replay.store import load_results
        from inspector.tui.loading import keep

        explanation = None
        try:
            run = self.replayed_run()
            explanation = explain(run, load_results(run.root), this_host())
            keep()
        except Exception as error:
            self.post_message(WorkFailed("findings cannot be worked out", error))
        self.post_message(self.Explained(explanation))

    def on_explained_screen_explained(self, message: Explained) -> None:
        self.session.explaining = self._started_explaining = False
        self.session.explanation = message.explanation or self.session.explanation
        for screen in self.app.screen_stack:
            if isinstance(screen, ExplainedScreen) and screen.session is self.session:
                screen.show_explanation()
                screen.refresh_bindings()

    def take_news(self, message: ReplayScreen.Replayed) -> None:
        super().take_news(message)
        # Measured times take the place of estimates; without findings on screen nobody waits for them.
        if message.whole is not None and self.session.explanation is not None:
            self.begin_explaining()

    # -- going to evidence

    def go_to_evidence(self, item: Evidence) -> None:
        start(self, partial(self._find, item), "evidence")

    def _find(self, item: Evidence) -> None:
        from inspector.tui.destinations import find_destination

        try:
            run = self.replayed_run()
            facts = self.session.facts or run.facts()
            self.post_message(self.Found(item, find_destination(run, item, events_of(facts))))
        except Exception as error:
            self.post_message(WorkFailed("this line cannot be read", error))

    def on_explained_screen_found(self, message: Found) -> None:
        self.show_destination(message.destination)

    def show_destination(self, found: Destination) -> None:
        """A graph's screen at the line, a text at the line, or why there is none."""
        if found.graph is not None and found.place is not None:
            pane, view = found.place
            at = (view, found.line) if found.line is not None else None
            self.post_message(Open(GraphTarget(self.replayed_run(), found.graph, self.session, pane, at)))
        elif found.document is not None:
            self.post_message(Open(SourceTarget(found.document, found.headline, found.remark)))
        else:
            self.bar.remark(found.remark or "there is nothing to show")

    def on_unmount(self) -> None:
        if self._started_explaining:
            self.session.explaining = False
