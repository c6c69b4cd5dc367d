"""A finding's advice, tried: `inspector explain --try` in a process of its own, as it changes folders."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

from inspector.contract.trial import from_json
from inspector.model.trial import AUTO, FOLDER, ROUNDS, TIMED, TrialReport
from inspector.process import Child, python_child
from inspector.readers.run import Run
from inspector.trial.run import command_line
from inspector.units import plural

_CAPTURES = 2
"""The command as it is, and with the setting."""
_OURS = "inspector: "
_PATIENCE_SECONDS = 3.0
_JOIN_SECONDS = 15.0


class TrialJob:
    """One trial, from `start` until it is no longer `live`; then it has a `report`, or an `error`.

    Stopping is as in a capture: the program is interrupted, the second time killed.
    """

    def __init__(self, run: Run, rule: str, label: str) -> None:
        self.what = f"a trial of {label}"
        self.rule = rule
        self.label = label
        self.command = command_line(run)
        self.live = True
        self.report: TrialReport | None = None
        self.error = ""
        self.stopped = False
        self._root = run.root.absolute()
        self._before = set(self._folders())
        self._began = time.monotonic()
        self._child: Child | None = None
        self._out: list[bytes] = []
        self._thread = threading.Thread(target=self._try, name="inspector-trial", daemon=True)

    def start(self) -> None:
        words = ("explain", str(self._root), "--try", self.rule, "--json")
        command = python_child(None, "inspector.cli.__main__", *words)
        self._child = Child(command, stdin="held", stdout=self._out.append)
        self._thread.start()

    @property
    def progress(self) -> str:
        """`trying cpp_wrapper=True: the command as it is, 12 s`"""
        new = [folder for folder in self._folders() if folder not in self._before]
        captures = list(new[0].iterdir()) if new else []
        if self.rule == AUTO:
            settings = plural(max(len(captures) - 1, 0), "setting")
            return f"trying {self.label}: {settings} so far, {time.monotonic() - self._began:.0f} s"
        what = "with it" if len(captures) >= _CAPTURES else "the command as it is"
        timed = sum(len(list((capture / TIMED).glob("*"))) for capture in captures)
        if timed:
            what = f"timing, run {timed} of {ROUNDS * _CAPTURES}"
        return f"trying {self.label}: {what}, {time.monotonic() - self._began:.0f} s"

    def stop(self) -> None:
        self.stopped = True
        if self._child is not None:
            # To it alone: it ends the program itself, and cleans up.
            self._child.send(signal.SIGINT)

    def end(self) -> None:
        """Stop within seconds, for when the program is left."""
        self.stop()
        self._thread.join(_PATIENCE_SECONDS)
        if self._thread.is_alive():
            self.stop()
            self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive() and self._child is not None:
            self._child.kill()

    def _folders(self) -> list[Path]:
        parent = self._root / FOLDER
        return [folder for folder in parent.iterdir() if folder.is_dir()] if parent.is_dir() else []

    def _try(self) -> None:
        assert self._child is not None
        ending = self._child.follow()
        try:
            if ending.code == 0:
                self.report = from_json(json.loads(b"".join(self._out)))
            else:
                # Between ours are the lines of the program.
                ours = [line for line in ending.tail.splitlines() if line.startswith(_OURS)]
                lines = ours or ending.tail.splitlines() or [f"exit code {ending.code}"]
                self.error = lines[-1].removeprefix(_OURS)
        except (ValueError, KeyError, TypeError) as error:
            self.error = f"its result is unreadable: {error}"
        self.live = False
