"""Trying a finding's advice from a screen: the question before it, its progress, stopping it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from inspector.model.trial import AUTO
from inspector.text import clean
from inspector.tui.navigation import Ask, Started

if TYPE_CHECKING:
    from inspector.model.explain import Finding
    from inspector.tui.replaying import ReplaySession
    from inspector.tui.trying import TrialJob

    from .base import InspectorScreen

_LOOK_SECONDS = 0.5


class Trials:
    """What one screen tries. A trial outlives the screen: every screen of the session shows it go on."""

    def __init__(self, screen: InspectorScreen, session: ReplaySession) -> None:
        self._screen = screen
        self._session = session

    def watch(self) -> None:
        """From when the screen is there on."""
        self._screen.set_interval(_LOOK_SECONDS, self._look)

    def ask(self, finding: Finding) -> None:
        """The user's command twice: as it is, and with what the finding advises. Where that is no setting, as
        often as there are settings that bear on the run's kernels."""
        from inspector.trial.run import why_not
        from inspector.tui.trying import TrialJob

        screen, run = self._screen, self._session.run
        if (why := why_not(run)) is not None:
            screen.bar.remark(f"cannot be tried: {why}")
            return
        if finding.trial is not None:
            job = TrialJob(run, finding.rule, finding.trial.label)
            question = f"Run this command twice: as it is, and with {job.label}?"
        else:
            job = TrialJob(run, AUTO, "what bears on its kernels")
            question = "Its advice is no setting. Run this command with each that bears on its kernels?"
        remark = f"{clean(job.command)}\nFiles that it writes are written again. {screen.stopping}"
        screen.post_message(Ask(question, remark, partial(self._answered, job)))

    def stop(self) -> bool:
        """Whether there was one to stop."""
        if self._session.trial is None:
            return False
        self._session.trial.stop()
        self._screen.bar.remark("stopping…")
        return True

    def _answered(self, job: TrialJob, yes: bool) -> None:
        if not yes:
            self._screen.bar.remark("not tried")
            return
        job.start()
        self._session.trial = job
        self._screen.post_message(Started(job))
        self._look()

    def _look(self) -> None:
        job = self._session.trial
        if job is None or not self._screen.is_current:
            return
        if job.live:
            self._screen.bar.remark("stopping…" if job.stopped else job.progress)
        else:
            self._session.trial = None
            if job.report is not None:
                self._session.trials[job.rule] = job.report
            self._session.changed()
            done = "the trial was stopped" if job.stopped else f"tried {job.label}: see below its finding"
            failed = job.report is None and not job.stopped
            self._screen.bar.remark(f"not tried: {job.error}" if failed else done, "bad" if failed else "dim")
        self._screen.refresh_bindings()
