"""What launches compute in vain: the same value again and again, or what never changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from inspector.analysis.constants import constant_nodes
from inspector.analysis.dataflow import VIEWS, operator, shown
from inspector.analysis.evaluations import LEAST_TIMES
from inspector.analysis.traffic import meta_bytes
from inspector.model.account import Interval
from inspector.model.explain import Trial
from inspector.model.fusion import NodeTraffic
from inspector.model.fx import FxNode
from inspector.model.waste import Evaluation

from .case import CALLED, Case, GraphCase, Launch
from .estimate import FACTOR, GPU_KERNEL_MS, GPU_OF_FLOPS, memory_ms, peak
from .launches import shares_of

LEAST_EXTRA = 1 << 16
"""Evaluations beyond one for each element: fewer take less than a launch."""
_CHEAP = frozenset({"sqrt", "rsqrt", "reciprocal"})
"""Taken of a variance for every element, beside the loads of that element: nothing to be gained."""

WRITTEN_ONCE = (
    "y = y.as_strided(y.size(), y.stride()) makes torch keep it in memory (in inference; in training a "
    "custom operator does the same)"
)
PADDED = f"have the padded tensor written once: {WRITTEN_ONCE}"
KEPT_PADDING = Trial(kept=("aten._unsafe_index",))
"""Padding by an edge or by reflection, whose places Inductor finds anew for each read
(torch/_decomp/decompositions.py: _reflection_or_replication_pad)."""

PAGE = 4096
"""Bytes of a page of memory, as nearly every system has it."""


def trains(case: Case) -> bool:
    """Whether a backward pass ran, or is called: with symbolic sizes torch compiles one that nobody may ever
    ask for."""
    ran = any(graph.artifacts.phase == "backward" and graph.runs for graph in case.graphs)
    return ran or any(program.backward_line for program in case.programs)


def saved_bytes(graph: GraphCase) -> int:
    """What a forward graph returns beyond its first result and what it was handed: kept for its backward."""
    fx = graph.artifacts.fx_after
    if fx is None or graph.artifacts.phase != "forward":
        return 0
    nodes = graph.artifacts.fx_nodes
    given = {node.name for node in fx.placeholders}
    kept = (nodes[name] for name in fx.outputs[1:] if name in nodes and name not in given)
    return sum(meta_bytes(node) for node in kept if node.meta is not None)


def repeated(graph: GraphCase) -> Iterable[tuple[Launch, list[Evaluation]]]:
    """Launches with what they compute again and again, `part` being that of the launch."""
    # What never changes is no producer of the program's: constant_work names it.
    constant = constant_nodes(graph.artifacts.fx_after)
    again: dict[str, list[Evaluation]] = defaultdict(list)
    for item in graph.fusion.evaluations:
        often = item.times >= LEAST_TIMES and item.extra >= LEAST_EXTRA and item.operator not in _CHEAP
        if often and not constant.issuperset(item.fx):
            again[item.group].append(item)
    for launch in graph.launches:
        if any(group.name in again for group in graph.groups_of(launch)):
            yield (
                launch,
                [
                    replace(item, part=item.part * share)
                    for name, share in shares_of(graph, launch).items()
                    for item in again.get(name, ())
                ],
            )


def leaf_parts(
    graph: GraphCase, constant: frozenset[str], inputs: frozenset[str] = frozenset()
) -> dict[int, float]:
    """Number of each launch -> the part of it, 0 to 1 by bytes, whose loops make `constant` nodes alone, or
    lay out anew for a library what they read of `inputs` alone: a kernel has what one convolution reads
    beside what the next one's weight is made of."""
    # A loop that makes a weight for a convolution stands for that, too, which a library computes.
    called = {name for launch in graph.launches if launch.role in CALLED for name in launch.fx}
    made: dict[str, list[NodeTraffic]] = defaultdict(list)
    for node in graph.fusion.nodes:
        made[node.group].append(node)
    fx = graph.artifacts.fx_nodes
    own: dict[str, float] = {}
    for group, nodes in made.items():
        weights = [(node.bytes_read or 0) + (node.bytes_written or 0) for node in nodes]
        whole = sum(weights)
        works = [[name for name in node.fx if name not in called and computes(fx, name)] for node in nodes]
        alone = [
            constant.issuperset(work)
            if work
            else bool(node.reads) and inputs.issuperset(access.buffer for access in node.reads)
            for node, work in zip(nodes, works, strict=True)
        ]
        own[group] = (
            sum(w for w, is_alone in zip(weights, alone, strict=True) if is_alone) / whole if whole else 0.0
        )
    return {
        launch.call.index: sum(own.get(name, 0.0) * share for name, share in shares_of(graph, launch).items())
        for launch in graph.launches
    }


def computes(fx: Mapping[str, FxNode], name: str) -> bool:
    """Whether a node is an operator's that does more than to show its input in another way."""
    return name in fx and fx[name].kind == "call" and operator(fx[name].target) not in VIEWS


def constant_parts(graph: GraphCase, constant: frozenset[str] | None = None) -> dict[int, float]:
    """Number of each launch -> the part of all that it computes, 0 to 1, that depends on nothing given; or on
    `constant` nodes alone."""
    constant = constant_nodes(graph.artifacts.fx_after) if constant is None else constant
    by_group: dict[str, float] = defaultdict(float)
    for item in graph.fusion.evaluations:
        if constant.issuperset(item.fx):
            by_group[item.group] += item.whole
    parts: dict[int, float] = {}
    for launch in graph.launches if by_group else ():
        part = sum(by_group.get(name, 0.0) * share for name, share in shares_of(graph, launch).items())
        if part:
            parts[launch.call.index] = min(1.0, part)
    return parts


def read_instead_ms(
    case: Case, graph: GraphCase, launch: Launch, part: float, constant: Collection[str]
) -> Interval:
    """What a launch takes less per call once the expensive operators that depend on `constant` nodes alone,
    which are `part` of all that it computes, were computed before: it reads what they gave. A launch that
    computes nothing else is not there then."""
    names = [name for name in launch.fx if computes(graph.artifacts.fx_nodes, name)]
    if names and all(name in constant for name in names):
        return graph.ms(launch) * part / FACTOR, graph.ms(launch) * part
    work = {name: graph.fusion.work.get(name, 0.0) for name in shares_of(graph, launch)}
    items = [item for item in graph.fusion.evaluations if item.group in work]
    items = [item for item in items if all(name in constant for name in item.fx)]
    least, most = not_computed_ms(
        case, graph, launch, part, sum(item.whole * work[item.group] for item in items)
    )
    # A CPU's caches are near, and its arithmetic takes long beside them.
    made = {name for item in items for name in item.fx}
    read = _read_ms(case, graph, made, constant) if graph.gpu else 0.0
    return max(least - read, 0.0), max(most - read, 0.0)


def _read_ms(case: Case, graph: GraphCase, made: Iterable[str], constant: Collection[str]) -> float:
    """Reading, once a run, what others get of `made` nodes and of what follows from them alone."""
    fx = graph.artifacts.fx_nodes
    ends, seen, left = set(), set(made), list(made)
    while left:
        node = fx.get(left.pop())
        users = node.users if node is not None else ()
        if node is not None and not all(user in constant for user in users):
            ends.add(shown(node.name, fx))
        after = {user for user in users if user in constant} - seen
        seen |= after
        left.extend(after)
    device = peak(case.facts.devices, graph.gpu, case.threads)
    return memory_ms(sum(meta_bytes(fx[name]) for name in ends), device, graph.gpu) * graph.runs


def not_computed_ms(case: Case, graph: GraphCase, launch: Launch, part: float, operations: float) -> Interval:
    """What a launch takes less per call if it leaves out `part` of what it computes, which are so many plain
    `operations`: no more than it takes beyond moving its bytes. Counted by weights, they are within the
    factor of estimates; where they are nearly all, what is left is. A GPU computes while it waits for memory,
    so that there only what the instructions take beyond that is saved."""
    ms = graph.ms(launch)
    memory = _memory_ms(case, graph, launch)
    saved = max(0.0, min(ms * part, ms - memory))
    if not graph.gpu:
        return max(saved / FACTOR, saved - (FACTOR - 1) * (ms - saved)), saved
    whole = sum(graph.fusion.work.get(name, 0.0) for name in shares_of(graph, launch))
    # A datasheet counts a multiplication and an addition in one instruction as two.
    rate = peak(case.facts.devices, graph.gpu, case.threads).flops / GPU_OF_FLOPS / 2
    low, high = (
        max(memory, count) - max(memory, count - factor * operations / rate * 1e3 * graph.runs)
        for factor in (1.0, FACTOR)
        for count in [factor * whole / rate * 1e3 * graph.runs]
    )
    return min(saved / FACTOR, low), min(saved, high)


def _memory_ms(case: Case, graph: GraphCase, launch: Launch) -> float:
    """What the launch and moving its bytes take at least, which computing less does not save."""
    if launch.roofline_fraction is not None:
        return graph.ms(launch) * min(1.0, launch.roofline_fraction)
    device = peak(case.facts.devices, graph.gpu, case.threads)
    start = GPU_KERNEL_MS if graph.gpu else 0.0
    return (memory_ms(launch.bytes or 0, device, graph.gpu) + start) * graph.runs
