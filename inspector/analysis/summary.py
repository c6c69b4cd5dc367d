"""Counts of a run, as the command contract defines them (`inspector.summary/1`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from inspector.analysis.calls import PayOff, pay_off
from inspector.analysis.evaluations import repeated
from inspector.analysis.load import run_busy
from inspector.analysis.nothing import all_in_eager, nothing_compiled
from inspector.frozen import dataclass
from inspector.model.problem import Problem
from inspector.model.run import PROVENANCE_FILE, GraphArtifacts, RunFacts

if TYPE_CHECKING:
    from inspector.model.calls import VariantRun
    from inspector.model.compile_time import CompileTime
    from inspector.model.fusion import FusionReport
    from inspector.model.ranks import Divergence
    from inspector.model.record import ProcessRecord
    from inspector.model.waste import Evaluation

KERNEL_KINDS = ("triton", "cpp", "template", "extern", "fallback", "user")


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """Counts of one compiled graph.

    `fx_nodes`: operations of fx_graph_transformed.py, else of fx_graph_readable.py. `scheduler_nodes_*`:
    top-level entries of the IR files. `kernels`: distinct definitions or targets by kind, every kind of
    `KERNEL_KINDS` present. `kernel_calls`: launches. A count is None where its file is missing.
    """

    ident: str
    name: str
    phase: str
    compile_id: str | None
    rank: int | None
    artifacts: tuple[str, ...]
    missing: tuple[str, ...]
    fx_nodes: int | None
    scheduler_nodes_pre: int | None
    scheduler_nodes_post: int | None
    kernels: dict[str, int] | None
    kernel_calls: int | None


@dataclass(frozen=True, slots=True)
class GraphWaste:
    """What one graph's kernels do that the program never asked for: the bytes that they move beside those
    that it asks for, and the operators that they compute again and again."""

    ident: str
    bytes_moved: int
    bytes_asked: int
    repeated: tuple[Evaluation, ...]

    @classmethod
    def of(cls, report: FusionReport) -> GraphWaste | None:
        """None where nothing is done in vain."""
        again = tuple(repeated(report.evaluations))
        moved = sum(group.bytes_moved or 0 for group in report.groups)
        asked = sum(group.bytes_asked or 0 for group in report.groups)
        return cls(report.ident, moved, asked, again) if again or asked < moved else None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """`compile_time` is None for a run without a trace; `divergence` empty for a single rank; `records` for
    a run without a recorder.

    `nothing_compiled` is the reason why there is no graph; `calls` compares compiled with eager.
    """

    facts: RunFacts
    graphs: tuple[GraphSummary, ...]
    problems: tuple[Problem, ...]
    compile_time: CompileTime | None = None
    divergence: tuple[Divergence, ...] = ()
    records: tuple[ProcessRecord, ...] = ()
    nothing_compiled: str | None = None
    calls: PayOff | None = None
    busy: tuple[str, ...] = ()
    """Why the machine was too busy for its times to be evidence."""
    waste: tuple[GraphWaste, ...] = ()
    """Of the graphs that do something in vain."""


def summarise_graph(artifacts: GraphArtifacts) -> GraphSummary:
    kernels = None
    if artifacts.code is not None:
        kernels = dict.fromkeys(KERNEL_KINDS, 0)
        for kernel in artifacts.code.kernels:
            kernels[kernel.kind] += 1
    fx = artifacts.fx_after or artifacts.fx_before
    return GraphSummary(
        ident=artifacts.ident,
        name=artifacts.name,
        phase=artifacts.phase,
        compile_id=artifacts.compile_id,
        rank=artifacts.rank,
        artifacts=artifacts.files,
        missing=artifacts.missing,
        fx_nodes=len(fx.operations) if fx else None,
        scheduler_nodes_pre=len(artifacts.pre.nodes) if artifacts.pre else None,
        scheduler_nodes_post=len(artifacts.post.nodes) if artifacts.post else None,
        kernels=kernels,
        kernel_calls=len(artifacts.code.calls) if artifacts.code else None,
    )


def summarise(
    facts: RunFacts,
    graphs: Iterable[GraphArtifacts],
    compile_time: CompileTime | None = None,
    divergence: tuple[Divergence, ...] = (),
    records: tuple[ProcessRecord, ...] = (),
    variants: Iterable[VariantRun] = (),
    waste: Iterable[GraphWaste] = (),
) -> RunSummary:
    """The whole run. A graph folder without any file is a graph without computation: all counts None."""
    summaries: list[GraphSummary] = []
    problems = list(facts.problems)
    for artifacts in graphs:
        summaries.append(summarise_graph(artifacts))
        problems.extend(artifacts.problems)
        if not artifacts.files:
            reason = "its code came from the cache, as another graph is the same, or it computes nothing"
            if not any(facts.cache_events.get(f"{name}_cache_hit") for name in ("fx_graph", "aotautograd")):
                reason = "a graph without any computation"
            problems.append(Problem(artifacts.ident, None, f"an empty folder: {reason}"))
        elif absent := _unexpectedly_absent(artifacts):
            message = f"missing: {', '.join(absent)}; not written, cut off, or not copied along"
            problems.append(Problem(artifacts.ident, None, message))
    runs = tuple(variants)
    return RunSummary(
        facts,
        tuple(summaries),
        (*problems, *(problem for run in runs for problem in run.problems)),
        compile_time,
        divergence,
        records,
        nothing_compiled(facts, len(summaries)),
        pay_off(runs, all_in_eager(facts, len(summaries))) if any(run.processes for run in runs) else None,
        run_busy(runs),
        tuple(waste),
    )


def _unexpectedly_absent(artifacts: GraphArtifacts) -> list[str]:
    """Missing files worth a word: torch itself leaves the provenance of many backward graphs unwritten."""
    if artifacts.phase != "backward" and artifacts.provenance is None:
        return list(artifacts.missing)
    return [name for name in artifacts.missing if name != PROVENANCE_FILE]
