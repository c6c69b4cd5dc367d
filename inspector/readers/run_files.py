"""The files around a run's graphs: where each graph lies, logs, traces, records; what they say of a graph.

A graph reads its own files and asks here for what others say of it; this knows no graph but by its names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from inspector.frozen import dataclass
from inspector.model.calls import GraphRuns, ProcessCalls, VariantRun
from inspector.model.logs import FusionLog, TorchLog
from inspector.model.problem import Problem, Read
from inspector.model.record import GraphRecord, ProcessRecord
from inspector.model.run import GRAPH_FILES, PROVENANCE_FILE, Content, GraphName, Manifest
from inspector.model.state import GraphState
from inspector.model.trace import TracedGraph

from .artifacts import CODE, FX_BEFORE, LOGS, MANIFEST, SCRIPT, TRACE_PATTERNS, RunFile, TextReader, matching
from .locate import NOT_IN, Located, is_trace_file
from .text import guarded, read_text
from .trace_file import TraceFile
from .variants import read_records, read_variants

_T = TypeVar("_T")

# run_2026_11_21_05_02_24_145134-pid_12661
_PROCESS_FOLDER = re.compile(r"pid_(\d+)$")
# # torch version: 2.11.0+cu130
_TORCH_VERSION = re.compile(r"^# torch version: (\S+)", re.M)
# # NVIDIA H200 : 1
_GPU_LINE = re.compile(r"^# GPU Hardware Info: *\n((?:# .+ : \d+ *\n)+)", re.M)

_FIRST_WITH_PROVENANCE = (2, 11)


@dataclass(frozen=True, slots=True)
class GraphPlace:
    """Where a graph's files are: in `folder`, or as the trace's events that `texts` reads by file name.

    `ident` is unique in the run; `process` is the name of the ``run_*-pid_P`` folder, empty without one.
    `compile_id` and `rank` are those of the events. `labels` are the files that `texts` come from, where that
    is no trace.
    """

    name: str
    phase: str
    ident: str
    process: str = ""
    folder: Path | None = None
    texts: Mapping[str, TextReader] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    compile_id: str | None = None
    rank: int | None = None

    def read(self, file: str, label: str) -> Read[str]:
        """The text of a file that is here."""
        return read_text(self.folder / file, label) if self.folder is not None else self.texts[file]()

    def has(self, file: str) -> bool:
        return (self.folder / file).is_file() if self.folder is not None else file in self.texts


class RunFiles:
    """The files of what was opened; each is read when it is first asked for, and once."""

    def __init__(self, located: Located) -> None:
        self.located = located
        self.root = located.path
        self.shown = located.shown
        self.kind = located.kind
        self._prefix = os.path.join(self.root, "")
        self._read: dict[RunFile[Any], Read[Any]] = {}

    def label(self, path: Path) -> str:
        """A path as problems show it: relative to the run's root where it lies inside."""
        # Asked for thousands of times, and ten times as fast as with paths.
        return path.name if path == self.root else str(path).removeprefix(self._prefix)

    def read(self, row: RunFile[_T]) -> Read[tuple[_T, ...]]:
        """Every file of a row of the table, with the problems of all."""
        if row not in self._read:
            paths = matching(row.patterns, self.kind, self.root)
            each = [row.read_path(path, self.label(path)) for path in paths]
            values = tuple(value for value, _ in each if value is not None)
            self._read[row] = (values, tuple(problem for _, problems in each for problem in problems))
        return self._read[row]

    # -- where the graphs lie

    @cached_property
    def places(self) -> tuple[GraphPlace, ...]:
        """In the order of compilation, process by process."""
        if self.kind == "trace":
            return tuple(self._traced_places())
        if self.kind in NOT_IN:
            return tuple(self._cached_places())
        if self.kind == "graph folder":
            name = self.root.name
            parsed = GraphName.parse(name)
            return (GraphPlace(name, parsed.phase if parsed else "unknown", name, folder=self.root),)
        listed: list[tuple[str, GraphName, Path]] = []
        for process in self.process_folders:
            names = [(GraphName.parse(path.name), path) for path in _folders(process / "torchinductor")]
            here = [(process.name, name, path) for name, path in names if name is not None]
            listed.extend(sorted(here, key=lambda item: (item[1].order, item[1].number)))
        repeated = _repeated([name.name for _, name, _ in listed])
        return tuple(
            GraphPlace(
                name.name,
                name.phase,
                f"{process}/{name.name}" if name.name in repeated else name.name,
                process,
                path,
            )
            for process, name, path in listed
        )

    @cached_property
    def process_folders(self) -> tuple[Path, ...]:
        """The ``run_*-pid_P`` folders, by name, which is by time."""
        if self.kind == "process folder":
            return (self.root,)
        parent = self.root / "torch_compile_debug" if self.kind == "capture" else self.root
        return tuple(path for path in _folders(parent) if path.name.startswith("run_"))

    def _traced_places(self) -> Iterable[GraphPlace]:
        repeated = _repeated([traced.name for _, traced in self._traced])
        for trace, traced in self._traced:
            texts = {name: trace.reader(event) for name, event in traced.files}
            ident = f"rank{trace.trace.rank or 0}/{traced.name}" if traced.name in repeated else traced.name
            yield GraphPlace(
                traced.name,
                traced.phase,
                ident,
                texts=texts,
                compile_id=traced.compile_id,
                rank=trace.trace.rank,
            )

    def _cached_places(self) -> Iterable[GraphPlace]:
        from .caches import wrappers
        from .vllm import pieces

        for piece in pieces(self.root)[0] if self.kind == "vLLM cache" else ():
            label = self.label(piece.file)
            yield GraphPlace(
                piece.name,
                "inference",
                piece.ident,
                texts={FX_BEFORE.file: piece.read},
                labels={FX_BEFORE.file: label},
                rank=piece.rank,
            )
        for wrapper in wrappers(self.root, self.kind):
            texts = {CODE.file: partial(wrapper.read, self.label)}
            labels = {CODE.file: self.label(wrapper.files[0])}
            yield GraphPlace(wrapper.name, wrapper.phase, wrapper.name, texts=texts, labels=labels)

    @cached_property
    def contents(self) -> Read[tuple[Content, ...]]:
        """What a cache or package holds; nothing for a run."""
        if self.kind not in NOT_IN:
            return (), ()
        from .caches import contents

        return guarded(lambda: contents(self.root, self.kind), ((), ()), self.label(self.root), "it")[0]

    # -- logs, traces, records

    @property
    def manifest(self) -> Manifest | None:
        return next(iter(self.read(MANIFEST)[0]), None)

    @property
    def logs(self) -> tuple[TorchLog, ...]:
        return self.read(LOGS)[0]

    @cached_property
    def trace_paths(self) -> tuple[Path, ...]:
        if self.kind in NOT_IN:
            return ()
        if self.root.is_file():
            return (self.root,)
        return matching(TRACE_PATTERNS, self.kind, self.root, is_trace_file)

    @cached_property
    def traces(self) -> tuple[TraceFile, ...]:
        return tuple(TraceFile(path, self.label(path)) for path in self.trace_paths)

    @cached_property
    def _traced(self) -> tuple[tuple[TraceFile, TracedGraph], ...]:
        from .trace_events import compiled_graphs

        return tuple(
            (trace, traced) for trace in self.traces for traced in compiled_graphs(trace.trace, trace.data)
        )

    @cached_property
    def records(self) -> tuple[ProcessRecord, ...]:
        """What the recorder wrote, process by process; empty where it was not there."""
        return read_records(self.root, self.label) if self.kind == "capture" else ()

    @cached_property
    def variants(self) -> tuple[VariantRun, ...]:
        """The captured run and those of its baseline; empty for what is no capture."""
        if self.kind != "capture":
            return ()
        return read_variants(self.root, self.label, self.manifest, self.records)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with logs, traces, records and the manifest; reads all of them."""
        traces = [problem for trace in self.traces for problem in trace.problems]
        records = [problem for record in self.records for problem in record.problems]
        return (*self.read(LOGS)[1], *traces, *self._no_traces(), *records, *self.read(MANIFEST)[1])

    def _no_traces(self) -> Iterable[Problem]:
        """Files that lie where a capture has its traces and begin like none."""
        for path in self.root.glob("trace/*.log") if self.kind == "capture" else ():
            if path not in self.trace_paths:
                yield Problem(
                    self.label(path), 1, "no structured trace: its first line is none, or is cut off"
                )

    # -- what they say of one graph

    @cached_property
    def compile_ids(self) -> dict[tuple[str, str], str | None]:
        """(process folder or "", graph name) -> compile id, as the log announces the folders."""
        ids: dict[tuple[str, str], str | None] = {}
        for log in self.logs:
            for path, compile_id in log.folders:
                parts = path.replace("\\", "/").split("/")
                process = parts[-3] if len(parts) >= 3 else ""
                ids[(process, parts[-1])] = compile_id
                ids.setdefault(("", parts[-1]), compile_id)
        return ids

    def compile_id_of(self, place: GraphPlace) -> str | None:
        """From the log's ``debug trace:`` line, or the trace that the graph came from."""
        if place.folder is None:
            return place.compile_id
        ids = self.compile_ids
        return ids.get((place.process, place.name), ids.get(("", place.name)))

    def rank_of(self, place: GraphPlace) -> int | None:
        """By the process id in the name of the folder, and in the traces or records."""
        match = _PROCESS_FOLDER.search(place.process)
        return place.rank if place.folder is None else self.ranks_by_pid.get(match[1]) if match else None

    @cached_property
    def ranks_by_pid(self) -> dict[str, int]:
        """Of torch.distributed alone; a record has a rank in any case, so that only several of them tell."""
        traced = {
            trace.process: trace.trace.rank
            for trace in self.traces
            if trace.process is not None and trace.trace.rank is not None
        }
        if traced or self.traces:
            return traced
        recorded = {str(record.pid): record.rank for record in self.records if record.rank is not None}
        return recorded if len(set(recorded.values())) > 1 else {}

    def fusion_of(self, place: GraphPlace) -> FusionLog | None:
        """The log block of a graph; several processes are told apart by their folder.

        The subgraphs of ``torch.cond`` and its like have blocks of their own, and the folder's IR files
        hold the last one's schedule, as each overwrites the one before: so the last block is taken.
        """
        blocks = [block for log in self.logs for block in log.fusions if block.graph == place.name]
        same = [block for block in blocks if not block.process or block.process == place.process]
        return same[-1] if same else None

    def record_of(self, place: GraphPlace) -> GraphRecord | None:
        """The record of a graph's own schedule, by the names of its folder and its process's."""
        graphs = (graph for record in self.records for graph in record.graphs)
        key = (place.name, place.process, 0)
        return next((graph for graph in graphs if (graph.graph, graph.process, graph.part) == key), None)

    def state_of(self, place: GraphPlace) -> GraphState | None:
        """How torch was set when the graph first ran; where nobody saw it run, at the newest call that was
        looked at. None where the recorder did not look."""
        for record in self.records:
            calls = record.calls
            if calls is None or calls.state is None:
                continue
            runs = _runs_of(calls, place)
            own = _PROCESS_FOLDER.search(place.process)
            if not runs and own is not None and calls.pid is not None and own[1] != str(calls.pid):
                continue
            seen = [position for item in calls.callables for position in item.states]
            positions = [run.state for run in runs if run.state is not None] or seen[-1:]
            if positions and 0 <= positions[0] < len(calls.state.states):
                return GraphState(calls.state.states[positions[0]], calls.state.environment)
        return None

    def runs_of(self, place: GraphPlace) -> GraphRuns | None:
        """What the recorder saw of a graph's runs."""
        calls = (record.calls for record in self.records if record.calls is not None)
        return next((run for each in calls for run in _runs_of(each, place)), None)

    def traced_text(self, place: GraphPlace, file: str) -> TextReader | None:
        """A file of a graph's folder as the trace has it, by process and AOT id; None where it hasn't."""
        name, pid = GraphName.parse(place.name), _PROCESS_FOLDER.search(place.process)
        if name is None or pid is None:
            return None
        for trace, traced in self._traced:
            if traced.aot_id == f"{name.aot_id}_{name.phase}" and trace.process == pid[1]:
                event = dict(traced.files).get(file)
                return trace.reader(event) if event is not None else None
        return None

    # -- what was compiled where

    @cached_property
    def torch_version(self) -> str | None:
        """As the first graph's runnable script has it, build included; else the manifest or the trace."""
        for script in self._scripts():
            match = _TORCH_VERSION.search(script)
            if match:
                return match[1]
        if self.manifest is not None and self.manifest.torch_version:
            return self.manifest.torch_version
        from .trace_events import torch_version

        versions = (torch_version(trace.trace, trace.data) for trace in self.traces)
        return next(filter(None, versions), None)

    @cached_property
    def expected_files(self) -> tuple[str, ...]:
        """What the run's torch version writes for every graph."""
        if self.kind in NOT_IN:
            # What became of vLLM's pieces is pickled.
            return (CODE.file,) if self.kind != "vLLM cache" else ()
        numbers = tuple(map(int, re.findall(r"\d+", self.torch_version or "")[:2]))
        with_provenance = len(numbers) == 2 and numbers >= _FIRST_WITH_PROVENANCE
        return (*GRAPH_FILES, PROVENANCE_FILE) if with_provenance else GRAPH_FILES

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """GPU names, or `cpu`: from the first graph that tells, else from the manifest."""
        if self.kind == "package":
            from .caches import package_devices

            return package_devices(self.root)
        script = next(filter(None, self._scripts()), None)
        if script is None:
            return self.manifest.devices if self.manifest is not None else ()
        match = _GPU_LINE.search(script)
        if match is None:
            return ("cpu",)
        return tuple(line[2:].rsplit(" : ", 1)[0].strip() for line in match[1].strip().splitlines())

    def _scripts(self) -> Iterable[str]:
        """The graphs' repro scripts; what is wrong with one is the graph's to tell."""
        for place in self.places:
            if place.has(SCRIPT.file):
                yield place.read(SCRIPT.file, SCRIPT.file)[0]


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(parent) if os.path.isdir(entry))
    except OSError:
        return []


def _repeated(names: list[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def _runs_of(calls: ProcessCalls, place: GraphPlace) -> list[GraphRuns]:
    return [run for run in calls.graph_runs if (run.graph, run.process) == (place.name, place.process)]
