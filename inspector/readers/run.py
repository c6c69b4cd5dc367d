"""An opened run: which graphs it has, its logs and traces, and the facts about it as a whole.

Opening lists folders and nothing else, so a run with 1,000 graphs opens like one with 3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from inspector.model.calls import VariantRun
from inspector.model.logs import FusionLog, GraphBreak, Recompile, TorchLog
from inspector.model.problem import InspectorError, Problem
from inspector.model.record import GraphRecord, ProcessRecord, RecordedKernel
from inspector.model.run import (
    MANIFEST_NAME,
    GraphName,
    Manifest,
    RunFacts,
)
from inspector.model.trace import TracedGraph

from .graph import CompiledGraph, TextReader
from .locate import Located, is_trace_file, locate
from .text import collection_paused, read_text
from .trace_file import TraceFile
from .variants import read_records, read_variants, was_watched

# run_2026_11_21_05_02_24_145134-pid_12661
_PROCESS_FOLDER = re.compile(r"pid_(\d+)$")
# # torch version: 2.11.0+cu130
_TORCH_VERSION = re.compile(r"^# torch version: (\S+)", re.M)
# # NVIDIA H200 : 1
_GPU_LINE = re.compile(r"^# GPU Hardware Info: *\n((?:# .+ : \d+ *\n)+)", re.M)

_FIRST_WITH_PROVENANCE = (2, 11)
_LOG_NAMES = ("torch_logs.txt", "logs/torch_logs.txt")
_STDERR_NAMES = ("stderr.txt", "logs/stderr.txt")


class Run:
    """An opened run. `graphs` are in the order of compilation, process by process."""

    def __init__(self, located: Located) -> None:
        self.located = located
        self.root = located.path
        self.shown = located.shown
        self.kind = located.kind
        self._problems: list[Problem] = []
        self.graphs: tuple[CompiledGraph, ...] = tuple(self._find_graphs())

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """Open what `path` names; raises InspectorError where it is not one run."""
        return cls(locate(path))

    def label(self, path: Path) -> str:
        """A path as problems show it: relative to the run's root where it lies inside."""
        try:
            return str(path.relative_to(self.root)) if path != self.root else path.name
        except ValueError:
            return str(path)

    def graph(self, name: str) -> CompiledGraph:
        """The graph of that ident, name or unambiguous beginning; InspectorError names the choices."""
        exact = [graph for graph in self.graphs if name in (graph.ident, graph.name)]
        found = exact or [graph for graph in self.graphs if graph.name.startswith(name)]
        if len(found) == 1:
            return found[0]
        choices = (
            ", ".join(graph.ident for graph in (found or self.graphs)[:8]) or "none: nothing was compiled"
        )
        what = "more than one graph" if found else "no graph"
        raise InspectorError(f"{what} is called {name!r} in {self.shown}; there are: {choices}")

    # -- graphs

    def _find_graphs(self) -> Iterable[CompiledGraph]:
        if self.kind == "trace":
            yield from self._traced_graphs()
            return
        if self.kind == "graph folder":
            parsed = GraphName.parse(self.root.name)
            phase = parsed.phase if parsed else "unknown"
            yield CompiledGraph(self, self.root.name, phase, self.root.name, "", self.root)
            return
        found: list[tuple[str, GraphName, Path]] = []
        for process in self.process_folders:
            names = [(GraphName.parse(path.name), path) for path in _folders(process / "torchinductor")]
            here = [(process.name, name, path) for name, path in names if name is not None]
            found.extend(sorted(here, key=lambda item: (item[1].order, item[1].number)))
        repeated = _repeated([name.name for _, name, _ in found])
        for process_name, name, path in found:
            ident = f"{process_name}/{name.name}" if name.name in repeated else name.name
            yield CompiledGraph(self, name.name, name.phase, ident, process_name, path)

    @cached_property
    def process_folders(self) -> tuple[Path, ...]:
        """The ``run_*-pid_P`` folders, by name, which is by time."""
        if self.kind == "process folder":
            return (self.root,)
        parent = self.root / "torch_compile_debug" if self.kind == "capture" else self.root
        return tuple(path for path in _folders(parent) if path.name.startswith("run_"))

    @cached_property
    def _traced(self) -> tuple[tuple[TraceFile, TracedGraph], ...]:
        from .trace_events import compiled_graphs

        return tuple(
            (trace, traced) for trace in self.traces for traced in compiled_graphs(trace.trace, trace.data)
        )

    def traced_text(self, graph: CompiledGraph, file: str) -> TextReader | None:
        """A file of a graph's folder as the trace has it, by process and AOT id; None where it hasn't."""
        name, pid = GraphName.parse(graph.name), _PROCESS_FOLDER.search(graph.process)
        if name is None or pid is None:
            return None
        for trace, traced in self._traced:
            if traced.aot_id == f"{name.aot_id}_{name.phase}" and trace.process == pid[1]:
                event = dict(traced.files).get(file)
                return trace.reader(event) if event is not None else None
        return None

    def _traced_graphs(self) -> Iterable[CompiledGraph]:
        repeated = _repeated([traced.name for _, traced in self._traced])
        for trace, traced in self._traced:
            texts = {name: trace.reader(event) for name, event in traced.files}
            ident = f"rank{trace.trace.rank or 0}/{traced.name}" if traced.name in repeated else traced.name
            yield CompiledGraph.from_events(
                self, traced.name, traced.phase, ident, texts, traced.compile_id, trace.trace.rank
            )

    # -- logs and traces

    @cached_property
    def manifest(self) -> Manifest | None:
        path = self.root / MANIFEST_NAME
        if not path.is_file():
            return None
        from .manifest import load_manifest

        manifest, problems = load_manifest(path)
        self._problems.extend(problems)
        return manifest

    @cached_property
    def log_paths(self) -> tuple[Path, ...]:
        """TORCH_LOGS text: the log file, or standard error where there is none."""
        if self.kind != "capture":
            return ()
        for names in (_LOG_NAMES, _STDERR_NAMES):
            found = tuple(self.root / name for name in names if (self.root / name).is_file())
            if found:
                return found[:1]
        return ()

    @cached_property
    def logs(self) -> tuple[TorchLog, ...]:
        from .torch_log import parse_torch_log

        logs = []
        for path in self.log_paths:
            text, problems = read_text(path, self.label(path))
            log = parse_torch_log(text, self.label(path))
            self._problems.extend((*problems, *log.problems))
            logs.append(log)
        return tuple(logs)

    @cached_property
    def trace_paths(self) -> tuple[Path, ...]:
        if self.root.is_file():
            return (self.root,)
        if self.kind == "trace":
            folders: Sequence[Path] = (self.root,)
        elif self.kind == "capture":
            folders = (self.root / "trace", self.root / "torch_compile_debug" / "tlparse", self.root)
        else:
            folders = (self.root / "tlparse",)
        for folder in folders:
            found = sorted(path for path in folder.glob("*.log") if is_trace_file(path))
            if found:
                return tuple(found)
        return ()

    @cached_property
    def traces(self) -> tuple[TraceFile, ...]:
        traces = tuple(TraceFile(path, self.label(path)) for path in self.trace_paths)
        for trace in traces:
            self._problems.extend(trace.problems)
        return traces

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

    def fusion_of(self, graph: CompiledGraph) -> FusionLog | None:
        """The log block of a graph; several processes are told apart by their folder.

        The subgraphs of ``torch.cond`` and its like have blocks of their own, and the folder's IR files
        hold the last one's schedule, as each overwrites the one before: so the last block is taken.
        """
        blocks = [block for log in self.logs for block in log.fusions if block.graph == graph.name]
        same = [block for block in blocks if not block.process or block.process == graph.process]
        return same[-1] if same else None

    @cached_property
    def records(self) -> tuple[ProcessRecord, ...]:
        """What the recorder wrote, process by process; empty where it was not there."""
        if self.kind != "capture":
            return ()
        records = read_records(self.root / "record", self.label)
        self._problems.extend(problem for record in records for problem in record.problems)
        return records

    @cached_property
    def variants(self) -> tuple[VariantRun, ...]:
        """The captured run and those of its baseline; empty for what is no capture."""
        if self.kind != "capture":
            return ()
        return read_variants(self.root, self.label, self.manifest, self.records)

    def record_of(self, graph: CompiledGraph) -> GraphRecord | None:
        """The record of a graph's own schedule, by the names of its folder and its process's."""
        for record in self.records:
            for found in record.graphs:
                if (found.graph, found.process, found.part) == (graph.name, graph.process, 0):
                    return found
        return None

    def kernels_of(self, graph: CompiledGraph) -> dict[str, RecordedKernel]:
        """What compiling and tuning the kernels gave, by name: the graph's own first.

        A kernel that several graphs of a process share is compiled, and recorded, with the first of them.
        """
        kernels = [kernel for record in self.records for kernel in record.kernels]
        found = {kernel.name: kernel for kernel in kernels if kernel.process == graph.process}
        return found | {
            kernel.name: kernel
            for kernel in kernels
            if (kernel.graph, kernel.process) == (graph.name, graph.process)
        }

    def rank_of(self, process: str) -> int | None:
        """The rank of a ``run_*-pid_P`` folder, by the process id in the traces."""
        match = _PROCESS_FOLDER.search(process)
        return self._ranks_by_pid.get(match[1]) if match else None

    @cached_property
    def _ranks_by_pid(self) -> dict[str, int]:
        ranks: dict[str, int] = {}
        for trace in self.traces:
            if trace.process is not None and trace.trace.rank is not None:
                ranks[trace.process] = trace.trace.rank
        return ranks

    # -- facts

    @cached_property
    def torch_version(self) -> str | None:
        """As the first graph's runnable script has it, build included; else the manifest or the trace."""
        for graph in self.graphs:
            match = _TORCH_VERSION.search(graph.text("fx_graph_runnable.py") or "")
            if match:
                return match[1]
        if self.manifest is not None and self.manifest.torch_version:
            return self.manifest.torch_version
        from .trace_events import torch_version

        for trace in self.traces:
            version = torch_version(trace.trace, trace.data)
            if version:
                return version
        return None

    @property
    def writes_provenance(self) -> bool:
        """Whether the provenance JSON is to be expected: 2.11 or later, or seen here."""
        numbers = re.findall(r"\d+", self.torch_version or "")
        return tuple(map(int, numbers[:2])) >= _FIRST_WITH_PROVENANCE if len(numbers) >= 2 else False

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """GPU names, or `cpu`: from the first graph that tells, else from the manifest."""
        for graph in self.graphs:
            text = graph.text("fx_graph_runnable.py")
            if not text:
                continue
            match = _GPU_LINE.search(text)
            if match:
                return tuple(line[2:].rsplit(" : ", 1)[0].strip() for line in match[1].strip().splitlines())
            return ("cpu",)
        return self.manifest.devices if self.manifest is not None else ()

    def facts(self) -> RunFacts:
        """Everything about the run as a whole; reads logs and traces, no graph but its header."""
        with collection_paused():
            return self._facts()

    def _facts(self) -> RunFacts:
        from . import trace_events

        breaks: tuple[GraphBreak, ...]
        recompiles: tuple[Recompile, ...]
        if self.logs:
            source = "log"
            breaks = tuple(event for log in self.logs for event in log.graph_breaks)
            recompiles = tuple(event for log in self.logs for event in log.recompiles)
        elif self.traces:
            source = "trace"
            breaks = tuple(e for t in self.traces for e in trace_events.graph_breaks(t.trace, t.data))
            recompiles = tuple(e for t in self.traces for e in trace_events.recompiles(t.trace, t.data))
        else:
            source = "torchdynamo/debug.log"
            breaks, recompiles = self._breaks_in_debug_logs(), ()
        # Read before the problems are collected, as what is wrong with a record is one of them.
        calls = tuple(record.calls for record in self.records if record.calls is not None)
        return RunFacts(
            root=self.shown,
            kind=self.kind,
            torch_version=self.torch_version,
            devices=self.devices,
            ranks=max(1, len({trace.trace.rank for trace in self.traces if trace.trace.rank is not None})),
            graph_breaks=breaks,
            recompiles=recompiles,
            manifest=self.manifest,
            cache_events=_sum(trace_events.cache_events(trace.trace) for trace in self.traces),
            event_kinds=_sum(trace_events.kind_counts(trace.trace) for trace in self.traces),
            sources={"graph_breaks": source, "recompiles": source},
            problems=(*self._problems, *self._absences()),
            calls=calls,
            watched=self.kind == "capture" and was_watched(self.root),
        )

    def _breaks_in_debug_logs(self) -> tuple[GraphBreak, ...]:
        from .dynamo_messages import parse_debug_log

        found: list[GraphBreak] = []
        for process in self.process_folders:
            path = process / "torchdynamo" / "debug.log"
            if path.is_file():
                text, problems = read_text(path, self.label(path))
                self._problems.extend(problems)
                found.extend(parse_debug_log(text))
        return tuple(found)

    def _absences(self) -> Iterable[Problem]:
        """What a user would look for in vain, with the likely reason and the remedy."""
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


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(parent) if entry.is_dir())
    except OSError:
        return []


def _repeated(names: list[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for key, value in count.items():
            total[key] = total.get(key, 0) + value
    return total
