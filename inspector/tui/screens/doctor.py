"""Can this machine compile, and would one see what it compiled? The doctor's answer, on screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from textual.app import ComposeResult

from inspector.model.doctor import Diagnosis, Finding
from inspector.model.problem import InspectorError
from inspector.present.doctor import doctor_table, doctor_verdict
from inspector.present.tables import message_table
from inspector.tui.actions import bindings
from inspector.tui.navigation import DoctorTarget
from inspector.tui.widgets.table_view import TableView

from .base import InspectorScreen

_MARGIN = 4
_ENDING_SECONDS = 2.0


class DoctorScreen(InspectorScreen):
    """Examines in a thread; leaving the screen stops the examination and what it started."""

    BINDINGS = bindings("doctor")

    def __init__(self, _target: DoctorTarget) -> None:
        super().__init__()
        self.diagnosis: Diagnosis | None = None
        self._known: Sequence[Finding] = ()
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._busy = False
        self._began = 0.0
        self._doing = ""
        self._table = TableView(message_table("Doctor", "examining this machine…"), id="doctor")

    def compose_body(self) -> ComposeResult:
        yield self._table

    def on_mount(self) -> None:
        self.set_interval(0.5, self._tick)
        self.action_examine()

    def action_examine(self) -> None:
        if self._busy:
            return
        self._busy, self._began, self._doing = True, time.monotonic(), "looking"
        self._ended.clear()
        self.headline.show("inspector · doctor")
        self._tick()
        self.start(self._examine, "doctor", self._not_examined)
        self.refresh_bindings()

    @property
    def running(self) -> str:
        return "an examination of this machine" if self._busy else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self._busy if action == "examine" else super().check_action(action, parameters)

    def _tick(self) -> None:
        if self._busy:
            self.bar.remark(f"{self._doing}… {time.monotonic() - self._began:.0f} s")

    def _examine(self) -> None:
        from inspector.doctor.run import examine

        try:
            diagnosis = examine(
                on_progress=self._tell, should_stop=self._stop.is_set, on_findings=self._tell_findings
            )
            self.call_later(self._examined, diagnosis)
        finally:
            self._ended.set()

    def _tell(self, text: str) -> None:
        self.call_later(self._told, text)

    def _tell_findings(self, findings: Sequence[Finding]) -> None:
        self.call_later(self._grown, findings)

    def _grown(self, findings: Sequence[Finding]) -> None:
        if self._busy and findings:
            self._known = findings
            self._show()

    def _told(self, text: str) -> None:
        self._doing = text
        self._tick()

    def _not_examined(self, error: Exception) -> None:
        self._busy = False
        self.refresh_bindings()
        if isinstance(error, InspectorError):
            self.bar.remark(str(error), "bad")
        else:
            self.failed("the machine could not be examined", error)

    def _examined(self, diagnosis: Diagnosis) -> None:
        self._busy = False
        self.diagnosis, self._known = diagnosis, diagnosis.findings
        self.refresh_bindings()
        self.bar.remark(diagnosis.verdict)
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        if self.diagnosis is not None and not self._busy:
            self.headline.show("inspector · doctor", doctor_verdict(self.diagnosis))
        if self._known:
            self._table.update(doctor_table(self._known, self.app.size.width - _MARGIN))

    def on_unmount(self) -> None:
        """The probe ends within a tenth of a second, and takes its scratch folder along."""
        self._stop.set()
        if self._busy:
            self._ended.wait(_ENDING_SECONDS)
