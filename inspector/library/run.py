"""An open run as a library shows it: what commands and screens show, as typed objects.

Nothing is read before it is asked for, nothing of the run is executed, and torch is not imported.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from html import escape
from typing import Any, Literal

from inspector.analysis.linkage import link_graph
from inspector.analysis.replay_history import latest
from inspector.analysis.summary import GraphSummary, RunSummary, summarise_graph
from inspector.comparison import compare
from inspector.contract import diff as diff_contract
from inspector.contract import explain as explain_contract
from inspector.contract import fusions as fusions_contract
from inspector.contract import summary as summary_contract
from inspector.contract import trace as trace_contract
from inspector.explain import explain
from inspector.gather import differences, fusion_of, summary_of, trace_report
from inspector.hardware.host import this_host
from inspector.model.diff import RunDiff
from inspector.model.explain import Explanation, Finding
from inspector.model.fusion import FusionReport
from inspector.model.logs import GraphBreak
from inspector.model.logs import Recompile as LoggedRecompile
from inspector.model.replay import GraphReplay, KernelReplay, ReplayResult
from inspector.model.run import GraphArtifacts, RunFacts
from inspector.model.source import SourceLocation, users_place
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run as RunFiles
from inspector.replay.store import load_results

from .records import Records
from .rows import (
    Block,
    Break,
    FindingRow,
    Fusion,
    GraphRow,
    Kernel,
    MissedFusion,
    RankDifference,
    Recompile,
    RunRow,
    Texts,
)

Answer = Literal["summary", "explain", "fusions", "trace"]
_VERDICTS = ("mismatch", "eager_closer", "unverifiable", "compiled_closer", "match")
"""Of launches, worst first."""
_FRAME_HEIGHT = 620


def open(path: str | os.PathLike[str]) -> Run:
    """The run at `path`: a capture's folder, torch's own debug folder, a trace, or an archive of one.

    Raises InspectorError, one line that says what to do, where there is no run or there are several.
    """
    return Run(RunFiles.open(path))


class Run:
    """An open run. What is expensive is worked out when it is first asked for, and kept.

    `explanation`, `summary` and a graph's `fusion` are the whole objects behind the commands of those names
    (`inspector.model`); the lists are flat records, which frames and tables are made of.
    """

    def __init__(self, files: RunFiles) -> None:
        self.files = files
        """The run's files, as readers see them; no promise is made of it."""

    @property
    def path(self) -> str:
        """As it was named when it was opened."""
        return self.files.shown

    @cached_property
    def facts(self) -> RunFacts:
        """What is known of the run as a whole: versions, devices, breaks, recompiles, problems."""
        return self.files.facts()

    @cached_property
    def results(self) -> tuple[ReplayResult, ...]:
        """What `inspector replay` measured earlier, oldest first."""
        return tuple(load_results(self.files.root, lambda _text: None)) if self.files.root.is_dir() else ()

    @cached_property
    def explanation(self) -> Explanation:
        """What `inspector explain` says, whole."""
        return explain(self.files, self.results, this_host())

    @cached_property
    def summary(self) -> RunSummary:
        """What `inspector summary` says, whole."""
        return summary_of(self.files)

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        return self.explanation.verdict

    @property
    def faster(self) -> float | None:
        """Eager's time over the compiled one; None where not both were measured."""
        return self.explanation.faster

    @cached_property
    def graphs(self) -> Records[Graph]:
        """Compiled graphs in the order of compilation; `run.graphs["model__0_forward_1.0"]` by name."""
        replays = latest(self.results)
        graphs = [Graph(self, graph, replays.get(graph.ident)) for graph in self.files.graphs]
        return Records(graphs, lambda graph: graph.row, GraphRow)

    @cached_property
    def kernels(self) -> Records[Kernel]:
        """Each kernel of each graph once."""
        return _same([kernel for graph in self.graphs for kernel in graph.kernels], Kernel)

    @cached_property
    def fusions(self) -> Records[Fusion]:
        """What the schedules consist of after fusion."""
        return _same([group for graph in self.graphs for group in graph.fusions], Fusion)

    @cached_property
    def missed(self) -> Records[MissedFusion]:
        """Pairs that touch the same memory and did not fuse, each graph's worst first."""
        return _same([pair for graph in self.graphs for pair in graph.missed], MissedFusion)

    @cached_property
    def findings(self) -> Records[Finding]:
        """Why it is slow or fast, worst first."""
        ranks = {id(finding): rank for rank, finding in enumerate(self.explanation.findings, 1)}
        return Records(
            self.explanation.findings, lambda finding: _finding_row(finding, ranks[id(finding)]), FindingRow
        )

    @cached_property
    def blocks(self) -> Records[Block]:
        """Where in the program a steady call's time goes, most first."""
        return _same(
            [
                Block(
                    place.name,
                    None if place.source is None else _line(place.source.path, place.source.line),
                    place.graph,
                    place.ms,
                    place.eager_ms,
                    place.how,
                    place.operators,
                    place.kernels,
                )
                for place in self.explanation.places
            ],
            Block,
        )

    @cached_property
    def breaks(self) -> Records[Break]:
        """Graph breaks, each time that torch tells of one."""
        return _same([_break(item) for item in self.facts.graph_breaks], Break)

    @cached_property
    def recompiles(self) -> Records[Recompile]:
        """Functions that were compiled again, and why."""
        return _same([_recompile(item) for item in self.facts.recompiles], Recompile)

    @cached_property
    def differences(self) -> Records[RankDifference]:
        """In what ranks differ; empty for one."""
        return _same(
            [
                RankDifference(
                    item.kind,
                    item.subject,
                    item.text,
                    tuple(f"{', '.join(labels)}: {value}" for labels, value in item.groups),
                )
                for item in differences(self.files)
            ],
            RankDifference,
        )

    @cached_property
    def row(self) -> RunRow:
        """The run as one flat record; works out all of `explanation`."""
        facts, explanation, manifest = self.facts, self.explanation, self.facts.manifest
        mode = manifest.options.get("mode") if manifest is not None else None
        return RunRow(
            path=self.path,
            kind=facts.kind,
            torch=facts.torch_version,
            devices=tuple(facts.devices),
            ranks=facts.ranks,
            host=manifest.host if manifest is not None else None,
            command=shlex.join(manifest.command) if manifest is not None else None,
            mode=mode if isinstance(mode, str) else None,
            status=manifest.status if manifest is not None else None,
            exit_code=manifest.exit_code if manifest is not None else None,
            started=manifest.started if manifest is not None else None,
            seconds=manifest.seconds if manifest is not None else None,
            graphs=len(self.files.graphs),
            graph_breaks=len(facts.graph_breaks),
            recompiles=len(facts.recompiles),
            compiled_ms=explanation.ledger.compiled_ms,
            eager_ms=explanation.ledger.eager_ms,
            unexplained_ms=explanation.ledger.unexplained_ms,
            faster=explanation.faster,
            outcome=explanation.outcome,
            quality=explanation.quality,
            compile_s=explanation.ledger.compile_s,
            verdict=explanation.verdict,
            problems=len(facts.problems),
        )

    def json(self, answer: Answer = "explain") -> dict[str, Any]:
        """What the command of that name prints with ``--json``; docs/json.md has the schemas."""
        return _ANSWERS[answer](self)

    def compare(self, other: Run) -> RunDiff:
        """What differs between this run and a later `other` one, as `inspector diff` has it."""
        return compare(self.files, other.files)

    def compare_json(self, other: Run) -> dict[str, Any]:
        """The same as ``inspector diff --json`` prints it."""
        return diff_contract.to_json(self.compare(other))

    def to_html(self) -> str:
        """The page that `inspector export` writes: one file that asks for nothing."""
        from inspector.export.page import export_page

        return export_page(self.files, lambda _text: None, lambda _text: None)

    def _repr_html_(self) -> str:
        """The exported page in a frame of its own, whose policy lets nothing of the run become markup."""
        page = escape(self.to_html(), quote=True)
        style = f"width:100%;height:{_FRAME_HEIGHT}px;border:1px solid #8884;resize:vertical"
        return f'<iframe sandbox="allow-scripts" title="inspector" style="{style}" srcdoc="{page}"></iframe>'

    def __repr__(self) -> str:
        return f"<inspector.Run {self.path}: {self.verdict}>"


class Graph:
    """A compiled graph; each of its files is read when it is first needed."""

    def __init__(self, run: Run, files: CompiledGraph, replay: GraphReplay | None) -> None:
        self.run = run
        self.replay = replay
        """Its newest replay; None where it was not replayed."""
        self._files = files

    @property
    def name(self) -> str:
        """Unique in the run; with the process before it where there are several."""
        return self._files.ident

    @property
    def phase(self) -> str:
        """`forward`, `backward` or `inference`."""
        return self._files.phase

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the files that torch wrote for it."""
        return self._files.files

    def text(self, name: str = "output_code.py") -> str | None:
        """One of its files as it is; None where it is not here."""
        return self._files.text(name)

    def kernel_source(self, name: str) -> str | None:
        """A generated kernel's own code; None for a library's, or one that is not here."""
        kernel = self._artifacts.code.kernel(name) if self._artifacts.code is not None else None
        return kernel.source or None if kernel is not None else None

    @cached_property
    def _artifacts(self) -> GraphArtifacts:
        return self._files.artifacts()

    @cached_property
    def summary(self) -> GraphSummary:
        """Its counts."""
        return summarise_graph(self._artifacts)

    @cached_property
    def fusion(self) -> FusionReport:
        """What `inspector fusions` says of it, whole: groups, decisions, traffic."""
        return fusion_of(self._files)

    @cached_property
    def fusions(self) -> Records[Fusion]:
        """What its schedule consists of after fusion, in execution order."""
        return _same(
            [
                Fusion(
                    self.name,
                    group.name,
                    group.kind,
                    group.kernel,
                    group.nodes,
                    group.bytes_unfused,
                    group.bytes_saved,
                    _texts(group.sources),
                )
                for group in self.fusion.groups
            ],
            Fusion,
        )

    @cached_property
    def missed(self) -> Records[MissedFusion]:
        """Pairs that touch the same memory and did not fuse, worst first."""
        return _same(
            [
                MissedFusion(
                    self.name,
                    pair.first,
                    pair.second,
                    pair.bytes,
                    pair.category,
                    pair.reason,
                    pair.plain,
                    pair.advice,
                    pair.possible,
                    _texts(pair.first_sources),
                    _texts(pair.second_sources),
                )
                for pair in self.fusion.missed
            ],
            MissedFusion,
        )

    @cached_property
    def kernels(self) -> Records[Kernel]:
        """Each of its kernels once."""
        artifacts = self._artifacts
        if artifacts.code is None:
            return _same([], Kernel)
        fx_of = {link.call: link.fx for link in link_graph(artifacts).calls}
        nodes = artifacts.fx_after.nodes if artifacts.fx_after is not None else ()
        places = {node.name: node.source for node in nodes if node.source is not None}
        replayed = {item.call: item for item in self.replay.kernels} if self.replay is not None else {}
        sides = self.run.explanation.sides
        profiled = {
            launch.call: launch.ms
            for launch in (sides.joined.launches if sides is not None else ())
            if launch.graph == self.name
        }
        kernels = []
        for kernel in artifacts.code.kernels:
            calls = [call.index for call in artifacts.code.calls if call.kernel == kernel.name]
            own = [replayed[call] for call in calls if call in replayed]
            operators = tuple(dict.fromkeys(name for call in calls for name in fx_of.get(call, ())))
            ms, how = _time(calls, own, profiled)
            kernels.append(
                Kernel(
                    self.name,
                    kernel.name,
                    kernel.kind,
                    len(calls),
                    ms,
                    how,
                    sum(item.bytes or 0 for item in own) or None,
                    min((f for item in own if (f := item.roofline_fraction) is not None), default=None),
                    next((verdict for verdict in _VERDICTS if any(verdict == i.verdict for i in own)), None),
                    _texts([places[name] for name in operators if name in places]),
                    operators,
                )
            )
        return _same(kernels, Kernel)

    @property
    def row(self) -> GraphRow:
        """Its counts and bytes, flat."""
        counts, fusion = self.summary, self.fusion
        kernels: Mapping[str, int] = self.summary.kernels or {}
        return GraphRow(
            graph=self.name,
            name=counts.name,
            phase=counts.phase,
            compile_id=counts.compile_id,
            rank=counts.rank,
            fx_nodes=counts.fx_nodes,
            nodes_before=counts.scheduler_nodes_pre,
            nodes_after=counts.scheduler_nodes_post,
            triton=kernels.get("triton"),
            cpp=kernels.get("cpp"),
            template=kernels.get("template"),
            extern=kernels.get("extern"),
            fallback=kernels.get("fallback"),
            user=kernels.get("user"),
            launches=counts.kernel_calls,
            bytes_unfused=fusion.bytes_unfused,
            bytes_fused=fusion.bytes_fused,
            bytes_minimum=fusion.bytes_minimum,
        )

    def __repr__(self) -> str:
        return f"<inspector.Graph {self.name}>"


def _time(
    calls: list[int], own: list[KernelReplay], profiled: Mapping[int, float]
) -> tuple[float | None, str | None]:
    """Of all launches, from one source: a sum of replayed and profiled ones would be neither."""
    replayed = [item.own_ms for item in own if item.own_ms is not None]
    if calls and len(replayed) == len(calls):
        return sum(replayed), "replayed"
    if calls and all(call in profiled for call in calls):
        return sum(profiled[call] for call in calls), "profiled"
    return None, None


def _same(items: list[Any], columns: type) -> Records[Any]:
    """Of records that are flat as they are."""
    return Records(items, lambda item: item, columns)


def _texts(places: Iterable[object]) -> Texts:
    return tuple(dict.fromkeys(map(str, places)))


def _line(path: str, line: int | None) -> str:
    return path if line is None else f"{path}:{line}"


def _place(location: SourceLocation | None) -> str | None:
    return None if location is None else str(location)


def _break(item: GraphBreak) -> Break:
    place = _place(users_place(item.location, item.frames))
    return Break(place, item.headline, item.reason, item.compile_id, item.rank, item.suppressed)


def _recompile(item: LoggedRecompile) -> Recompile:
    return Recompile(
        item.function, _place(item.location), item.headline, item.reasons, item.compile_id, item.rank
    )


def _finding_row(finding: Finding, rank: int) -> FindingRow:
    return FindingRow(
        rank,
        finding.rule,
        finding.severity,
        finding.title,
        finding.advice,
        finding.graph,
        finding.cost_ms,
        finding.share,
        finding.how,
        finding.account,
        tuple(dict.fromkeys(_line(item.path, item.line) for item in finding.evidence)),
    )


_ANSWERS: Mapping[Answer, Callable[[Run], dict[str, Any]]] = {
    "summary": lambda run: summary_contract.to_json(run.summary),
    "explain": lambda run: explain_contract.to_json(run.explanation),
    "fusions": lambda run: fusions_contract.to_json([graph.fusion for graph in run.graphs if graph.texts]),
    "trace": lambda run: trace_contract.to_json(trace_report(run.files)),
}
