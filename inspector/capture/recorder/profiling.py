"""Profiles a few steady calls of the program with torch's own profiler, in a run that nothing else times.

``torch.profiler`` is started some calls before one that the parent chose by the times of an earlier run:
its warm-up, in which CUPTI and its buffers are made ready. The calls after it are kept; where one of them
compiles, as a first evaluation between two of a training does, those behind it are. Each timed call is
marked, so that what lies outside of all is told apart in the trace.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any

from .guard import Guards
from .journal import Entry

MARK = "inspector: "
_SUFFIX = ".json.gz"
_MOST_STARTS = 4
"""A program that compiles again and again is profiled as it is."""


class Profiling:
    """`file` is where the trace goes, its name ending in ``.json.gz``; `order` numbers the callable whose
    calls count; `first` is the last of `warm_up` calls that warm the profiler up, and the `calls` after
    it are kept."""

    def __init__(
        self, file: str, order: int, first: int, calls: int, guards: Guards, warm_up: int = 1
    ) -> None:
        self._file = file
        self._order = order
        self._first = first - warm_up + 1
        self._warm_up = warm_up
        self._calls = calls
        self._log = guards.log
        self._guard = guards.make("torch.profiler")
        self._profile: Any = None
        self._mark: Any = None
        self._thread = 0
        self._steps = 0
        self._starts = 0
        # Of several processes the first rank's is profiled.
        self._done = os.environ.get("RANK", "0") != "0" or os.path.exists(file)
        atexit.register(self._guard.run, self._finish)

    def before(self, entry: Entry) -> None:
        """Before each timed call."""
        if not self._done:
            self._guard.run(self._before, entry)

    def after(self, cold: bool = False) -> None:
        """After a timed call that has returned, its device's work included; `cold` is one that compiled."""
        if self._mark is not None:
            self._guard.run(self._unmark)
            if cold and self._steps >= self._warm_up and self._starts < _MOST_STARTS:
                self._guard.run(self._give_up)

    def _before(self, entry: Entry) -> None:
        self._unmark()
        if entry.kind == "call" and entry.order == self._order:
            if self._profile is None:
                # Whole rounds of the program's loop stay whole.
                if entry.calls >= self._first and (entry.calls - self._first) % self._calls == 0:
                    self._first = entry.calls
                    self._start()
            elif threading.get_ident() == self._thread and entry.calls > self._first + self._steps:
                self._steps += 1
                self._profile.step()
                if self._steps >= self._warm_up + self._calls:
                    self._finish()
        if self._profile is not None and threading.get_ident() == self._thread:
            autograd: Any = sys.modules["torch"].autograd
            self._mark = autograd.profiler.record_function(MARK + entry.kind)
            self._mark.__enter__()

    def _unmark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _start(self) -> None:
        torch: Any = sys.modules["torch"]
        # What fails here is not tried again.
        self._done = True
        if getattr(torch.autograd.profiler, "_is_profiler_enabled", False):
            self._log("not profiled: the program's own profiler was at work")
            return
        kinds = torch.profiler.ProfilerActivity
        activities = [kinds.CPU]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            activities.append(kinds.CUDA)
        profile = torch.profiler.profile(
            activities=activities,
            schedule=torch.profiler.schedule(wait=0, warmup=self._warm_up, active=self._calls, repeat=1),
            on_trace_ready=self._save,
        )
        self._thread = threading.get_ident()
        self._steps = 0
        self._starts += 1
        profile.start()
        self._profile, self._done = profile, False

    def _finish(self) -> None:
        """Stop, which saves what was kept if that has not been done."""
        profile, self._profile = self._profile, None
        self._done = True
        self._mark = None
        if profile is not None:
            profile.stop()

    def _give_up(self) -> None:
        """Keep nothing so far, and begin anew."""
        profile, self._profile = self._profile, None
        profile.stop()

    def _save(self, profile: Any) -> None:
        if profile is not self._profile and not self._done:
            return
        part = self._file[: -len(_SUFFIX)] + ".part" + _SUFFIX
        os.makedirs(os.path.dirname(self._file), exist_ok=True)
        profile.export_chrome_trace(part)
        os.replace(part, self._file)
