"""An opened run: its graphs, and the facts about it as a whole.

Opening lists folders and nothing else, so a run with 1,000 graphs opens like one with 3.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

from inspector.model.logs import GraphBreak, Recompile
from inspector.model.problem import InspectorError, Problem
from inspector.model.run import RunFacts
from inspector.model.source import SourceLocation, is_library
from inspector.model.trace import Trace

from .artifacts import DEBUG_LOGS
from .graph import CompiledGraph
from .guards import stack_of
from .locate import NOT_IN, Located, locate
from .run_files import RunFiles
from .text import collection_paused
from .trace_file import TraceFile
from .variants import was_watched

_T = TypeVar("_T")


class Run(RunFiles):
    """An opened run. `graphs` are in the order of compilation, process by process."""

    def __init__(self, located: Located) -> None:
        super().__init__(located)
        self.graphs = tuple(CompiledGraph(self, place) for place in self.places)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """Open what `path` names; raises InspectorError where it is not one run."""
        return cls(locate(path))

    def graph(self, name: str) -> CompiledGraph:
        """The graph of that ident, name or unambiguous beginning; InspectorError names the choices."""
        exact = [graph for graph in self.graphs if name in (graph.ident, graph.name)]
        matches = exact or [graph for graph in self.graphs if graph.name.startswith(name)]
        if len(matches) == 1:
            return matches[0]
        choices = (
            ", ".join(graph.ident for graph in (matches or self.graphs)[:8]) or "none: nothing was compiled"
        )
        what = "more than one graph" if matches else "no graph"
        raise InspectorError(f"{what} is called {name!r} in {self.shown}; there are: {choices}")

    def facts(self) -> RunFacts:
        """Everything about the run as a whole; reads logs and traces, no graph but its header."""
        with collection_paused():
            return self._facts()

    def _facts(self) -> RunFacts:
        from . import trace_events
        from .dynamo_messages import whole_stacks

        unread: tuple[Problem, ...] = ()
        breaks: list[GraphBreak] = []
        recompiles: list[Recompile] = []
        if self.logs:
            breaks = [event for log in self.logs for event in log.graph_breaks]
            recompiles = [event for log in self.logs for event in log.recompiles]
            if any(event.suppressed for event in breaks):
                traced = (self._events(trace_events.graph_breaks, file) for file in self.traces)
                breaks = whole_stacks(breaks, [event for events in traced for event in events])
        elif self.traces:
            for file in self.traces:
                breaks += self._events(trace_events.graph_breaks, file)
                recompiles += self._events(trace_events.recompiles, file)
        else:
            debug_logs, unread = self.read(DEBUG_LOGS)
            breaks = [event for log in debug_logs for event in log.graph_breaks]
        return RunFacts(
            root=self.shown,
            kind=self.kind,
            torch_version=self.torch_version,
            devices=self.devices,
            ranks=max(1, len({*self.ranks_by_pid.values(), *self._traced_ranks()})),
            graph_breaks=tuple(item for item in breaks if not item.gave_up),
            given_up=tuple(item for item in breaks if item.gave_up),
            recompiles=tuple(self._placed([self._named(item) for item in recompiles])),
            manifest=self.manifest,
            cache_events=self.count_events(trace_events.cache_events),
            event_kinds=self.count_events(trace_events.kind_counts),
            problems=(*self.problems, *unread, *self.contents[1], *self._absences()),
            contents=self.contents[0],
            calls=tuple(record.calls for record in self.records if record.calls is not None),
            watched=self.kind == "capture" and was_watched(self.root),
        )

    def _traced_ranks(self) -> set[int]:
        return {trace.trace.rank for trace in self.traces if trace.trace.rank is not None}

    @cached_property
    def wrappers(self) -> dict[str, str]:
        """Place of a decorator's function -> what it wraps."""
        calls = (record.calls for record in self.records if record.calls is not None)
        return {place: name for process in calls for place, name in process.wrappers}

    def _named(self, item: Recompile) -> Recompile:
        """A decorator's function with the name of what it wraps, which torch does not know."""
        place = item.location and f"{item.location.path}:{item.location.line}"
        wrapped = self.wrappers.get(place or "")
        return item if wrapped is None else replace(item, function=f"{item.function} of {wrapped}")

    def _placed(self, recompiles: Sequence[Recompile]) -> Iterable[Recompile]:
        """With the calls that led to those of a library's functions, which no log has."""
        if not any(item.location is not None and is_library(item.location.path) for item in recompiles):
            return recompiles
        stacks: dict[tuple[int | None, str | None], tuple[SourceLocation, ...]] = {
            (file.trace.rank, event.compile_id): stack_of(file.trace, event.data.get("stack"))
            for file in self.traces
            for event in file.trace.of_kind("dynamo_start")
            if isinstance(event.data, dict)
        }
        return [replace(item, frames=stacks.get((item.rank, item.compile_id), ())) for item in recompiles]

    @staticmethod
    def _events(read: Callable[[Trace, bytes], Iterable[_T]], file: TraceFile) -> Iterable[_T]:
        return file.guarded(lambda: tuple(read(file.trace, file.data)), (), "its events")

    def count_events(self, counts_of: Callable[[Trace], dict[str, int]]) -> dict[str, int]:
        """What `counts_of` counts in each trace, added up."""
        total: Counter[str] = Counter()
        none: dict[str, int] = {}
        for file in self.traces:
            total.update(file.guarded(partial(counts_of, file.trace), none, "its events"))
        return dict(total)

    def _absences(self) -> Iterable[Problem]:
        """What a user would look for in vain, with the likely reason and the remedy."""
        if self.kind in NOT_IN:
            yield Problem(self.label(self.root), None, NOT_IN[self.kind])
            return
        if self.graphs and not self.logs and not self.traces and self.kind != "graph folder":
            yield Problem(
                self.label(self.root),
                None,
                "no log and no trace here: graph breaks come from torchdynamo/debug.log, "
                "recompiles are not known; open the folder above if it has them",
            )
        here = {graph.name for graph in self.graphs}
        for log in self.logs:
            for path, _ in log.folders:
                name = path.replace("\\", "/").rsplit("/", 1)[-1]
                if name not in here:
                    yield Problem(
                        log.path,
                        None,
                        f"announces {name}, which is not here: it computes nothing, or was lost in copying",
                    )
