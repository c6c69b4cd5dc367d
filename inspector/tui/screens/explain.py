"""Why it is slow: the verdict, where the time goes, findings; their evidence and advice one key away."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult
from textual.containers import Container

from inspector.model.explain import Evidence, Finding
from inspector.model.two_sides import Block
from inspector.present.explain import ExplainPage, Target, explain_page, short_verdict
from inspector.present.identity import run_name
from inspector.present.spans import Page, message_page
from inspector.present.two_sides import BYS, By
from inspector.replay.trust import foreign
from inspector.tui.actions import bindings
from inspector.tui.destinations import Destination, places_of
from inspector.tui.navigation import ExplainTarget
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.toned_view import TonedView

from .base import InspectorScreen
from .explaining import Findings, Preview
from .replays import Replays
from .trials import Trials

_WIDE = 140


class ExplainScreen(InspectorScreen):
    """One text to go through; where there is room, the evidence under the cursor stands beside it.

    A trial outlives the screen: whoever opens it again sees it go on.
    """

    BINDINGS = bindings("explain")

    def __init__(self, target: ExplainTarget) -> None:
        super().__init__()
        self.session = target.session
        self.run = target.session.run
        self.findings = Findings(self, self.session)
        self.replays = Replays(self, self.session, self.findings.measured)
        self.trials = Trials(self, self.session)
        self._first = target.finding
        self._written = ExplainPage(Page(""), ())
        self._by: By = "block"
        self._view = TonedView(message_page("Explain", "working out what it costs, and why…"), id="explain")
        self._preview = Preview(self.findings, "Evidence", _WIDE)

    def compose_body(self) -> ComposeResult:
        with Container(id="panes"):
            yield self._view
            yield self._preview

    def on_mount(self) -> None:
        self.query_one("#panes", Container).styles.layout = "horizontal"
        self.headline.show(f"{run_name(self.run.shown)} · explain")
        self.trials.watch()
        self._arrange()
        self.session.join(self)
        if self.session.explanation is None:
            self.findings.work_out()
        self.call_after_refresh(self.show_session)

    def on_unmount(self) -> None:
        self.session.leave(self)
        self.replays.leave()
        self.findings.leave()

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        self._preview.show_if_wide()
        if not self._preview.display and self.focused is self._preview:
            self.focus_view(self._view)
        if self.focused is None:
            self.focus_view(self._view)

    # -- the text

    def show_session(self) -> None:
        explanation = self.session.explanation
        if explanation is None:
            return
        here = self.target
        self.headline.show(f"{run_name(self.run.shown)} · explain", short_verdict(explanation))
        self._view.show_written(self._write)
        if self._first is not None and here is None:
            here = Target(self._first)
        row = self._written.row_of(here) if here is not None else None
        if row is not None:
            self._view.move_to(row, tell=False, jump=True)
        self._preview.look_at(self.evidence)
        self.refresh_bindings()

    def _write(self, width: int) -> Page:
        assert self.session.explanation is not None
        trials, key = self.session.trials, self.key("try")
        self._written = explain_page(self.session.explanation, width, trials, key, self._by)
        return self._written.page

    @property
    def target(self) -> Target | Block | None:
        """What the line under the cursor tells of."""
        row = self._view.cursor
        return self._written.targets[row] if row < len(self._written.targets) else None

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor."""
        target, explanation = self.target, self.session.explanation
        return (
            explanation.findings[target.finding]
            if isinstance(target, Target) and explanation is not None
            else None
        )

    @property
    def evidence(self) -> Evidence | None:
        """The line of evidence under the cursor, or the block's; for the rest of a finding its first one."""
        target, finding = self.target, self.finding
        if isinstance(target, Block):
            return next(iter(places_of(target)), None)
        if target is None or finding is None or not finding.evidence:
            return None
        return finding.evidence[target.evidence or 0]

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        if message.view is self._view:
            self._preview.look_at(self.evidence)
            self.refresh_bindings()

    def action_open(self) -> None:
        item = self.evidence
        if item is None:
            self.bar.remark("no line to go to here: findings have them")
            return
        self.findings.look_up(item, partial(self._go_to, self.target))

    def _go_to(self, target: Target | Block | None, place: Destination) -> None:
        """A block whose line is not here is shown by its graph."""
        if isinstance(target, Block) and target.graph and place.document is None and place.graph is None:
            self.findings.look_up(places_of(target)[-1], self.findings.go_to)
        else:
            self.findings.go_to(place)

    def action_sum_sides(self) -> None:
        """Both sides by what comes next, with the cursor among them."""
        self._by = BYS[(BYS.index(self._by) + 1) % len(BYS)]
        self.show_session()
        if not isinstance(self.target, Block) and self._written.sides is not None:
            self._view.move_to(self._written.sides, jump=True)

    def action_step_finding(self, direction: int) -> None:
        here, explanation = self.target, self.session.explanation
        if explanation is None or not explanation.findings:
            self.bar.remark("no findings")
            return
        last = len(explanation.findings) - 1
        number = max(0, min(last, here.finding + direction)) if isinstance(here, Target) else 0
        row = self._written.row_of(Target(number))
        if row is not None:
            self._view.move_to(row, jump=True)

    def action_other_part(self) -> None:
        if self._preview.display:
            self.focus_view(self._view if self.focused is self._preview else self._preview)

    # -- measuring

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        busy = self.session.running or self.session.trial is not None
        if action == "stop":
            return busy
        if action in ("try_advice", "replay_all") and busy:
            return False
        if action == "try_advice":
            return self.finding is not None and self.session.foreign is None
        if action == "sum_sides":
            return self.session.explanation is not None and self.session.explanation.sides is not None
        if action == "other_part":
            return self._preview.display
        return super().check_action(action, parameters)

    def action_replay_all(self) -> None:
        """Kernel times in place of estimates; those of another machine's run would not be its own."""
        if (why := foreign(self.run, self.run.graphs)) is not None:
            self.bar.remark(f"not measured: {why}, and times of this machine would not be that run's")
        else:
            self.replays.ask(self.run.graphs)

    def action_stop(self) -> None:
        if not self.trials.stop():
            self.replays.stop()

    def action_try_advice(self) -> None:
        if self.finding is not None:
            self.trials.ask(self.finding)
