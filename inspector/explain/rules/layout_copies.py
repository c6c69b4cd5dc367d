"""Kernels that only move data: permuted, made contiguous, padded, concatenated.

Looks at: launches whose scheduler nodes load and store and do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.steady import MOST
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.complex_numbers import has_complex, on_complex, saved_by_fusing
from inspector.explain.estimate import FACTOR, memory_ms, peak
from inspector.explain.in_force import LAST_ALREADY, channels_last
from inspector.explain.launches import is_copy, shares_of
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence
from inspector.model.explain import Finding, FindingHow
from inspector.model.fusion import FusionGroup
from inspector.units import duration, plural, size


def find(case: Case) -> Iterable[Finding]:
    costly: list[tuple[float, int, GraphCase, Launch, FindingHow]] = []
    # What is done with complex numbers is no choice of layouts: awkward_calls has it, on a GPU where some of
    # it would fuse.
    numbers = {graph.name for graph in case.graphs if _told_as_complex(graph)}
    for graph, launch in case.launches():
        if launch.call.index in graph.rewriting or (graph.name in numbers and on_complex(graph, launch)):
            continue
        if launch.role == "copy":
            moved = launch.bytes or 0
            ms = graph.ms(launch) if launch.measured else _at_most(case, graph, moved, graph.ms(launch))
            costly.append((ms, moved, graph, launch, how_timed([launch])))
        elif launch.role == "generated" and len(launch.leaves) > 1 and launch.bytes:
            # A C++ kernel may hold several loop nests: of the copies among them nobody measured the time.
            copies = [leaf.name for leaf in launch.leaves if is_copy(leaf) and _alone(graph, leaf.name)]
            moved = sum(_bytes_of(graph.fusion.group(name)) for name in copies)
            if moved:
                shares = shares_of(graph, launch)
                part = graph.ms(launch) * sum(shares.get(name, 0.0) for name in copies)
                costly.append((_at_most(case, graph, moved, part), moved, graph, launch, "estimated"))
    total = sum(moved for _, moved, _, _, _ in costly)
    if not total:
        return
    costly.sort(key=lambda item: -item[0])
    whole = sum(ms for ms, *_ in costly)
    cost = case.within_call(whole)
    share = case.share(cost)
    evidence = []
    for ms, moved, graph, launch, how in costly[:4]:
        took = duration(ms) + (" estimated" if how == "estimated" else "")
        evidence.append(graph.launch_evidence(launch, f"{took}, {size(moved)}: {launch.name}"))
        if launch.sources:
            evidence.append(source_evidence(case, launch.sources[0]))
    guessed = sum(ms for ms, *_, how in costly if how == "estimated")
    how = "estimated" if guessed > MOST * whole else how_timed(item[3] for item in costly)
    yield Finding(
        rule="layout_copies",
        severity=severity_of(share),
        title=(
            f"{about(cost, how)} and {size(total)} per call only move data into another layout "
            f"({plural(len(costly), 'kernel')})"
        ),
        graph=costly[0][2].name,
        cost_ms=cost,
        claims=tuple(
            on_launch(graph, launch, ms * cost / whole, how) for ms, _, graph, launch, how in costly if ms > 0
        ),
        evidence=tuple(evidence),
        advice=_advice(costly[0][2], costly[0][3].name),
        how=how,
        share=share,
    )


def _told_as_complex(graph: GraphCase) -> bool:
    return has_complex(graph.artifacts.fx_nodes) and (not graph.gpu or bool(saved_by_fusing(graph)))


def _at_most(case: Case, graph: GraphCase, moved: int, ms: float) -> float:
    """Of a copy that nobody measured no more than moving it takes."""
    most = memory_ms(moved, peak(case.facts.devices, graph.gpu, case.threads), graph.gpu) * FACTOR
    return min(ms, most * graph.runs)


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
            return LAST_ALREADY
        if _of_images(graph):
            return (
                "keep one memory format throughout: "
                "model.to(memory_format=torch.channels_last), and the input too"
            )
    if {"cat", "stack"}.intersection(name.split("_")):
        return "write into one preallocated tensor, or concatenate once and later"
    return (
        "keep one layout: drop .contiguous(), permute weights once outside, or choose the "
        "operator's own layout"
    )


RULE = Rule("layout_copies", Stage.CODE, find, other_work=True)
