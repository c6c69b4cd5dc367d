"""The whole account of one compiled graph's fusion, put together from its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.model.decision import Decision, DecisionSource
from inspector.model.fusion import Access, FusionGroup, FusionReport, NodeTraffic, total
from inspector.model.links import Linkage
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import SchedulerNode

from .as_written import as_written
from .decisions import Decisions, decisions_of_log
from .evaluations import evaluations
from .fusion_groups import Sources, build_groups, handed_buffers
from .linkage import link_graph
from .missed import missed_fusions
from .traffic import Memory, minimum_bytes

_MOST_NAMES = 6
_LONGEST_NAME = 200
"""A damaged one has a million letters, and each page tells the notes."""


def analyse_fusion(
    artifacts: GraphArtifacts,
    linkage: Linkage | None = None,
    symbols: Mapping[str, int] | None = None,
) -> FusionReport:
    """Groups, traffic, decisions and missed fusions of one graph.

    `symbols` are hints of symbolic sizes beyond those that the wrapper shows. The recorder's decisions come
    before the log's. What is absent gives empty parts and a note.
    """
    schedule = artifacts.post or artifacts.pre
    linkage = linkage or link_graph(artifacts)
    # Fusion renames loop variables of its members, so a node's own reads are those before it.
    leaves: dict[str, SchedulerNode] = {}
    for stage in (artifacts.pre, artifacts.post):
        for leaf in stage.leaves() if stage else ():
            leaves.setdefault(leaf.name, leaf)
    if artifacts.post is not None:
        final = {leaf.name for leaf in artifacts.post.leaves()}
        leaves = {name: leaf for name, leaf in leaves.items() if name in final}
    memory = Memory(artifacts, leaves, linkage, symbols)
    kernels = {call.index: call.kernel for call in artifacts.code.calls} if artifacts.code else {}
    nodes, groups = build_groups(
        schedule.nodes if schedule else (),
        leaves,
        memory,
        handed_buffers(artifacts.code),
        linkage,
        Sources(artifacts, linkage),
        kernels,
    )
    written = as_written(artifacts, groups, nodes, memory)
    evaluated, work = evaluations(
        {entry.name: tuple(entry.leaves()) for entry in (schedule.nodes if schedule else ())},
        {node.name: node for node in nodes},
        artifacts.fx_nodes,
        memory.reader,
    )
    source, noted = _noted(artifacts, leaves.values())
    decisions = Decisions(noted, nodes)
    missed = missed_fusions(groups, nodes, leaves, memory, decisions, source != "none")
    unfused = total(tuple(access for node in nodes for access in (*node.reads, *node.writes)))
    known = [group.bytes_saved for group in groups]
    saved = sum(value for value in known if value is not None) if None not in known else None
    kinds = {node.name: node.kind for node in nodes}
    rejected = [decision for decision in decisions.all if decision.verdict == "rejected"]
    report = FusionReport(
        name=artifacts.name,
        ident=artifacts.ident,
        nodes=nodes,
        groups=written.groups,
        decisions=decisions.all,
        missed=missed.shown,
        minor=missed.minor,
        noise={
            "no_shared_data": sum(decision.category == "no_shared_data" for decision in rejected),
            "fused_later": sum(decision.fused_later for decision in rejected),
            **missed.noise,
        },
        bytes_unfused=unfused if schedule else None,
        bytes_fused=unfused - saved if schedule and unfused is not None and saved is not None else None,
        bytes_minimum=minimum_bytes(leaves, memory) if schedule else None,
        bytes_kept=total(tuple(access for group in groups for access in group.kept)),
        counts_before=Counter(node.kind for node in nodes),
        counts_after=Counter(_kind(group, kinds) for group in groups),
        decision_source=source,
        outputs=frozenset(memory.outputs),
        notes=tuple(_notes(artifacts, nodes, groups)),
        rewritten=written.rewritten,
        evaluations=evaluated,
        work=work,
    )
    asked, least = report.bytes_asked, report.bytes_minimum
    # Whoever writes a part of an input asks for less than all of it.
    return replace(report, bytes_minimum=asked) if asked is not None and least and asked < least else report


def _noted(
    artifacts: GraphArtifacts, leaves: Iterable[SchedulerNode]
) -> tuple[DecisionSource, Sequence[Decision]]:
    """What was decided, as it was written down, and by whom."""
    if artifacts.record is not None:
        return "recorder", artifacts.record.decisions
    if artifacts.fusion is None:
        return "none", ()
    writers = {buffer.name: leaf.name for leaf in leaves for buffer in leaf.outputs}
    return "log", decisions_of_log(artifacts.fusion, writers)


def _kind(group: FusionGroup, kinds: Mapping[str, str]) -> str:
    """A group's kind; what fused with nothing counts as what it computes."""
    return kinds[group.nodes[0]] if group.kind == "single" else group.kind


def _notes(
    artifacts: GraphArtifacts, nodes: Sequence[NodeTraffic], groups: Sequence[FusionGroup]
) -> list[str]:
    notes = []
    if artifacts.pre is None and artifacts.post is None:
        return ["neither ir_pre_fusion.txt nor ir_post_fusion.txt is here: nothing can be said about fusion"]
    if artifacts.post is None:
        notes.append("ir_post_fusion.txt is missing: the nodes are shown as they were before fusion")
    if artifacts.pre is None:
        notes.append("ir_pre_fusion.txt is missing: reads and writes are those after fusion")
    if artifacts.code is None:
        notes.append(
            "output_code.py is missing: a buffer that only one group uses is taken to be gone, "
            "and what is handed to a launch all the same is not known"
        )
    if artifacts.fusion is None and artifacts.record is None:
        notes.append("no fusion log: decisions are not known; capture with TORCH_LOGS=fusion")
    if max(getattr(source, "part", 0) for source in (artifacts.fusion, artifacts.record)):
        notes.append(
            "this graph has subgraphs that are scheduled on their own; torch keeps only the last one's IR"
        )
    accesses = [access for node in nodes for access in (*node.reads, *node.writes)]
    unknown = _names(accesses, "unknown")
    if unknown:
        notes.append(
            f"size not known (symbolic without a hint, or not printed): {unknown}; sums with them are null"
        )
    bounds = _names(accesses, "bound")
    if bounds:
        notes.append(f"upper bounds, as the index depends on data or is not affine: {bounds}")
    regions = _names(accesses, "region")
    if regions:
        notes.append(f"counted by the part that the index touches: {regions}")
    kept = [access.buffer for group in groups for access in group.kept]
    if kept:
        notes.append(f"used inside one group only, yet handed to its launch and so written: {_shorten(kept)}")
    return notes


def _names(accesses: Sequence[Access], basis: str) -> str:
    return _shorten([access.buffer for access in accesses if access.basis == basis])


def _shorten(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _MOST_NAMES} more" if len(distinct) > _MOST_NAMES else ""
    told = distinct[:_MOST_NAMES]
    cut = (f"{name[:_LONGEST_NAME]}…" if len(name) > _LONGEST_NAME else name for name in told)
    return ", ".join(cut) + more
