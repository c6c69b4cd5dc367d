"""A capture that the TUI started: it runs in a thread, and screens look at it when they draw."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from inspector.capture.environment import CaptureOptions
from inspector.capture.follow import RunFollower
from inspector.capture.launch import CaptureOutcome, capture
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.problem import InspectorError
from inspector.present.run import Counts, GraphEntry
from inspector.readers.locate import Located
from inspector.readers.run import Run
from inspector.tui.output import OutputLines
from inspector.views.attempt import attempt

State = Literal["starting", "running", "ended", "failed"]

LOOK_SECONDS = 0.4
_LOOK_SHARE = 0.2
"""Of the processor's time, at most, for looking: the program is to be measured, not we."""
_PATIENCE_SECONDS = 3.0
"""How long a program may take to stop when the TUI is left, before it is killed."""
_JOIN_SECONDS = 15.0


@dataclass(frozen=True)
class Sighting:
    """The run so far, as the run screen would show it. `counts` has a graph once its code is written."""

    entries: tuple[GraphEntry, ...] = ()
    counts: Mapping[str, Counts] = field(default_factory=dict)
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()


class CaptureJob:
    """One capture and what is seen of it; a `capture.progress.Display` that has no terminal.

    `state` goes from `starting` to `running` once the command is about to run, and ends as `ended` with an
    `outcome`, or as `failed` with `error`, one line. `said` is the capture's own last word. The event loop
    reads everything here while threads write: each attribute is replaced as a whole.
    """

    detached = True
    what = "a capture"

    def __init__(self, options: CaptureOptions, command: str, size: tuple[int, int]) -> None:
        self.options = options
        self.command = command
        self.state: State = "starting"
        self.run: Path | None = None
        self.outcome: CaptureOutcome | None = None
        self.error = ""
        self.said = ""
        self.stop_requests = 0
        self.sighting = Sighting()
        self.output = OutputLines()
        self._size = size
        self._began = time.monotonic()
        self._seconds: float | None = None
        self._over = threading.Event()
        self._seen_all = threading.Event()
        self._thread = threading.Thread(target=self._capture, name="inspector-capture", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def live(self) -> bool:
        """Whether there is something to stop."""
        return self.state in ("starting", "running")

    @property
    def seconds(self) -> float:
        """Since the command began to run."""
        return self._seconds if self._seconds is not None else time.monotonic() - self._began

    def stop(self) -> None:
        """Ask the program to stop as a Ctrl-C would; the second time, kill it."""
        self.stop_requests += 1

    def end(self) -> None:
        """Stop the program, within seconds, and wait until the run is written to its end."""
        if self.stop_requests == 0:
            self.stop()
        self._thread.join(_PATIENCE_SECONDS)
        if self._thread.is_alive():
            self.stop_requests = max(2, self.stop_requests + 1)
            self._thread.join(_JOIN_SECONDS)

    # -- in the capture's thread

    def _capture(self) -> None:
        outcome = attempt(partial(capture, self.options, display=self))
        if isinstance(outcome, InspectorError):
            self.error = str(outcome)
        elif isinstance(outcome, Exception):
            self.error = f"the capture failed: {type(outcome).__name__}: {outcome}"
        else:
            self.outcome = outcome
        self._seconds = time.monotonic() - self._began
        self._over.set()
        if self.run is not None and self.outcome is not None:
            self._seen_all.wait(_JOIN_SECONDS)
        self.state = "failed" if self.outcome is None else "ended"

    def size(self) -> tuple[int, int]:
        return self._size

    def started(self, run: Path) -> None:
        self.run = run
        self._began = time.monotonic()
        self.state = "running"
        threading.Thread(target=self._watch, args=(run,), name="inspector-watch", daemon=True).start()

    def write_stderr(self, data: bytes) -> bool:
        self.output.feed("stderr", data)
        return True

    def write_stdout(self, data: bytes) -> bool:
        self.output.feed("stdout", data)
        return True

    def show(self, text: str) -> None:
        """The screen has its own clock and counts."""

    def clear(self) -> None:
        """There is no line to take away."""

    def say(self, text: str) -> None:
        self.said = text
        self.output.say(text)

    # -- in the watching thread

    def _watch(self, run: Path) -> None:
        """Look at the run until the capture is over, and once more then."""
        watch = _Watch(run)
        over = False
        while not over:
            over = self._over.is_set()
            began = time.monotonic()
            seen = attempt(partial(watch.look, over))
            if isinstance(seen, Sighting):
                self.sighting = seen
            else:
                # What is being written may be read half; the run screen tells what stays wrong.
                self.output.say(f"inspector: {type(seen).__name__}: {seen}")
            if not over:
                took = time.monotonic() - began
                self._over.wait(max(LOOK_SECONDS, took / _LOOK_SHARE))
        self._seen_all.set()


class _Watch:
    """Counts each graph once, as soon as its code is written."""

    def __init__(self, run: Path) -> None:
        self._located = Located("capture", run, str(run))
        self._follower = RunFollower(run)
        self._counts: dict[Path, Counts] = {}
        self._sizes: dict[Path, int] = {}

    def look(self, last: bool) -> Sighting:
        from inspector.views.loading import count_graph

        seen = self._follower.look()
        compile_ids = dict(seen.compile_ids)
        entries: list[GraphEntry] = []
        counts: dict[str, Counts] = {}
        for graph in Run(self._located).graphs:
            assert graph.folder is not None
            if graph.folder not in self._counts and self._is_written(graph.folder, last):
                self._counts[graph.folder] = count_graph(graph, with_code=True, keep=False)
            known = self._counts.get(graph.folder)
            if known is not None:
                counts[graph.ident] = known
            compile_id = compile_ids.get((graph.process, graph.name))
            # Ranks are known from the trace, in the end; until then process ids tell them apart.
            pid = f"pid {graph.process.rpartition('pid_')[2]}"
            entries.append(GraphEntry(graph.ident, graph.phase, compile_id, rank=pid))
        if len({entry.rank for entry in entries}) < 2:
            entries = [replace(entry, rank="") for entry in entries]
        return Sighting(tuple(entries), counts, seen.graph_breaks, seen.recompiles)

    def _is_written(self, folder: Path, last: bool) -> bool:
        """The code is written last; it is whole once it has not grown between two looks."""
        try:
            size = (folder / "output_code.py").stat().st_size
        except OSError:
            return False
        same = self._sizes.get(folder) == size
        self._sizes[folder] = size
        return (same or last) and size > 0
