"""Kernels that only move data: permuted, made contiguous, padded, concatenated.

Looks at: launches whose scheduler nodes load and store and do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.estimate import FACTOR, memory_ms, peak
from inspector.explain.in_force import channels_last
from inspector.explain.launches import is_copy
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.explain import Finding
from inspector.model.fusion import FusionGroup
from inspector.units import size


def find(case: Case) -> Iterable[Finding]:
    costly = []
    for graph, launch in case.launches():
        if launch.call.index in graph.rewriting:
            continue
        if launch.role == "copy":
            costly.append(
                (_took(case, graph, launch, launch.bytes or 0, 1.0), launch.bytes or 0, graph, launch)
            )
        elif launch.role == "generated" and len(launch.leaves) > 1 and launch.bytes:
            # A C++ kernel may hold several loop nests: the copies among them count by their bytes.
            copies = [leaf for leaf in launch.leaves if is_copy(leaf)]
            moved = sum(
                _bytes_of(graph.fusion.group(leaf.name)) for leaf in copies if _alone(graph, leaf.name)
            )
            if moved:
                part = min(moved / launch.bytes, 1.0)
                costly.append((_took(case, graph, launch, moved, part), moved, graph, launch))
    total = sum(moved for _, moved, _, _ in costly)
    if not total:
        return
    costly.sort(key=lambda item: -item[0])
    cost = case.within_call(sum(ms for ms, _, _, _ in costly))
    share = case.share(cost)
    evidence = []
    for ms, moved, graph, launch in costly[:4]:
        evidence.append(graph.launch_evidence(launch, f"{timed(launch, ms)}, {size(moved)}: {launch.name}"))
        if launch.sources:
            evidence.append(source_evidence(case, launch.sources[0]))
    how = how_timed(launch for _, _, _, launch in costly)
    yield Finding(
        rule="layout_copies",
        severity=severity_of(share),
        title=(
            f"{about(cost, how)} and {size(total)} per call only move data into another layout "
            f"({len(costly)} kernels)"
        ),
        graph=costly[0][2].name,
        cost_ms=cost,
        claims=on_launches(((graph, launch, ms) for ms, _, graph, launch in costly), how, cost),
        evidence=tuple(evidence),
        advice=_advice(costly[0][2], costly[0][3].name),
        how=how,
        share=share,
    )


def _took(case: Case, graph: GraphCase, launch: Launch, moved: int, part: float) -> float:
    """Of a copy that is `part` of a launch: where nobody measured that, no more than moving it takes."""
    most = memory_ms(moved, peak(case.facts.devices, graph.gpu, case.threads), graph.gpu) * FACTOR
    return graph.ms(launch) * part if launch.measured else min(graph.ms(launch) * part, most * graph.runs)


def _alone(graph: GraphCase, name: str) -> bool:
    """Whether the node fused with nothing, so that its copy is a loop of its own."""
    group = graph.fusion.group(name)
    return group is not None and group.kind == "single"


def _bytes_of(group: FusionGroup | None) -> int:
    if group is None:
        return 0
    return sum(access.bytes or 0 for access in (*group.reads, *group.writes))


def _of_images(graph: GraphCase) -> bool:
    """Whether it convolves what a memory format is of: four sizes or five, and more than one row."""
    fx = graph.artifacts.fx_after
    nodes = [node for node in fx.nodes if "convolution" in node.target] if fx is not None else []
    return any(
        node.meta is not None and len(node.meta.shape) > 3 and 1 not in node.meta.shape[2:] for node in nodes
    )


def _advice(graph: GraphCase, name: str) -> str:
    if "convolution" in name:
        if channels_last(graph):
            return "channels-last comes in already: see which operator asks for another layout on the way"
        if _of_images(graph):
            return (
                "keep one memory format throughout: "
                "model.to(memory_format=torch.channels_last), and the input too"
            )
    if "cat" in name or "stack" in name:
        return "write into one preallocated tensor, or concatenate once and later"
    return (
        "keep one layout: drop .contiguous(), permute weights once outside, or choose the "
        "operator's own layout"
    )


RULE = Rule("layout_copies", Stage.CODE, find, other_work=True)
