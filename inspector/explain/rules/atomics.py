"""Elements that are added into shared memory cells one by one: scatter, index_add, an embedding's backward.

Looks at: ``atomic_add`` in generated C++ and Triton, and the elements that go through it; scatters that torch
leaves to ATen for the same reason (torch/_inductor/utils.py: use_scatter_fallback).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.analysis.dataflow import operator
from inspector.analysis.index_ranges import IndexReader
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.cpp_loops import counted_nests
from inspector.explain.estimate import ATOMIC_NS, FACTOR
from inspector.explain.launches import indexed_by_data
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, lost_claim, severity_of, source_evidence, timed
from inspector.explain.whole_operators import no_slower_than_aten
from inspector.model.account import Claim, Interval
from inspector.model.explain import Finding
from inspector.model.schedule import SchedulerNode
from inspector.model.source import SourceLocation, is_library, numel
from inspector.model.two_sides import Block
from inspector.units import duration

# tl.atomic_add(out_ptr0, ...) and atomic_add(&out_ptr0[0], ...), but not 'atomic_add_found': False
_ATOMIC = re.compile(r"\batomic_add(?:_vec)?(?:<[^>]*>)?\s*\(")
_FALLBACK = re.compile(r"\b(scatter_(?:add|reduce)\w*|index_add\w*|embedding_dense_backward)\b")
_SCATTERS = re.compile(r"scatter|index_add|index_put")
_SORTING = re.compile(
    r"\b(?:DeviceRadixSort|krn_partial|sum_and_scatter|compute_grad_weight|indexing_backward_kernel)"
)
"""ATen's kernels that sort by index and add up segments (aten/src/ATen/native/cuda:
EmbeddingBackwardKernel.cu, Indexing.cu)."""
_SORT = "sort by index and reduce segments, "
_ADVICE = "use a one-hot matmul for few targets, or an operator with a library kernel (embedding_bag)"
_LEFT = (
    "leave it to ATen, which took an eighth to three quarters as long where both were timed: call it in a "
    "torch.library.custom_op (with register_fake); "
)
_ON_CPU = (
    "where the indices stay the same and rows have several columns, sort them once: embedding_bag over what "
    "is sorted took a twentieth to a third as long"
)
"""Sorting in each call took longer than adding one by one (benchmarks/results/scatter.txt)."""
_SORTS = "add fewer (leave out padding), {}; sorting by index first, as eager does, is slower: {}"
_COPIES = (
    "add into some hundred copies of the {cells:,} cells in turns and sum those up, as so many additions "
    "into few cells wait for each other (256 copies of a histogram: 1.82 instead of 24.6 ms on an H200); or "
)
_FEW = 1024
"""Additions per cell, on average, from which on they wait for each other; copies cost little then."""
_COMPUTED_ADVICE = (
    "the indices are worked out, not data, so that each result's own terms are known: write it as a sum "
    "over them"
)
_WORKED_OUT = "_unsafe_index_put"
"""In names of kernels: what autograd makes of ``aten._unsafe_index``, which torch/_decomp alone writes, with
indices of its own (torch/_inductor/utils.py: get_fused_kernel_name)."""
_LEAVE_OUT = ", or leave this operator out of the compiled function"
_ADDS = re.compile(
    r"embedding_dense_backward|index_put|index_add|scatter|col2im|(?:upsample|pool|grid_sampler)\w*_backward"
)
"""ATen's kernels for a CPU that add to places, by the names of a profile."""
_Costly = tuple[float, int, GraphCase, Launch]
"""Milliseconds, elements and whose."""
SAVED = 0.7
"""On a GPU, against sorting by index first, or a reduction where the indices allow one."""
_BY_ATEN: Interval = (0.25, 0.88)
"""Of what it takes on a CPU, what ATen's own kernels saved where both were timed."""


def find(case: Case) -> Iterable[Finding]:
    costly: list[_Costly] = []
    own = False
    for graph, launch in case.launches():
        if launch.role == "fallback" and _FALLBACK.search(launch.name):
            costly.append((graph.ms(launch), _largest_input(graph, launch), graph, launch))
            continue
        if "atomic_add" not in launch.source or not _ATOMIC.search(launch.source):
            continue
        own = True
        part = 1.0
        if not graph.gpu:
            nests = counted_nests(launch.source, launch.points)
            weights = [
                float(nest.points or 0) * (ATOMIC_NS if nest.atomic else 0.5 if nest.vectorised else 1.0)
                for nest in nests
            ]
            atomic = [weight for nest, weight in zip(nests, weights, strict=True) if nest.atomic]
            part = sum(atomic) / sum(weights) if sum(weights) else 1.0
        points = _added(launch)
        if points:
            costly.append((graph.ms(launch) * part, points, graph, launch))
    if not costly:
        return
    costly.sort(key=lambda item: -item[0])
    lost = _lost(case, costly)
    known = {place: ms for _, block, ms in lost for place in block.launches}
    machine = machine_of(case)
    # What ATen saves on a CPU is known of those; on a GPU not to add one by one may save more.
    rest = [item for item in costly if item[2].gpu or _place(item) not in known]
    beside = _beside_aten(case, costly)
    more = (_beyond(_guessed(machine, item, beside), known.get(_place(item), 0.0)) for item in rest)
    guessed = [claim for claim in more if claim.ms[1] > 0]
    cost = case.within_call(sum(statistics.fmean(claim.ms) for claim in guessed))
    cost += sum(ms for _, _, ms in lost)
    share = case.share(cost)
    _, _, graph, launch = costly[0]
    # Nothing quicker is known then: ATen's own kernel takes as long, and there is nothing to sort.
    by_data = _by_data(launch)
    quick = not by_data and _place(costly[0]) in no_slower_than_aten(case)
    sorting = _sorting_ms(case, graph, launch)
    cells = _few_cells(graph, launch) if graph.gpu else 0
    slower = sorting > graph.ms(launch)
    if by_data:
        left = bool(lost) or beside.get(_place(costly[0])) == 0.0
        advice = _by_data_advice(graph, sorting if slower else None, left)
    else:
        advice = _COMPUTED_ADVICE + ("" if quick else _LEAVE_OUT)
    if cells:
        advice = _COPIES.format(cells=cells) + advice
    elif lost:
        advice = _as_eager(lost) + advice
    evidence = []
    for ms, count, owner, kernel in costly[:3]:
        evidence.append(owner.launch_evidence(kernel, f"{_many(count)}, {timed(kernel, ms)}: {kernel.name}"))
        evidence += [source_evidence(case, place) for place in _places(owner, kernel)[:1]]
    yield Finding(
        rule="atomics",
        # That there is no kernel for it comes first, where there is none.
        severity=severity_of(
            share, at_most="low" if quick else "high" if own and (cells or not slower) else "medium"
        ),
        title=_title(costly),
        graph=graph.name,
        cost_ms=cost,
        claims=(
            *(lost_claim(case, number, block, ms) for number, block, ms in lost),
            *(
                # Of what is known to be quicker nothing is left then.
                replace(claim, ms=(0.0, claim.ms[1])) if slower and not cells else claim
                for claim in guessed
            ),
        ),
        evidence=tuple(evidence),
        advice=advice,
        how="estimated" if guessed else "measured",
        share=share,
    )


def _beside_aten(case: Case, costly: Sequence[_Costly]) -> dict[tuple[str, int], float]:
    """What part of its time each launch on a CPU takes beyond ATen's own adding in the same block of eager's
    profile; none where that has no such kernel."""
    parts = {}
    for own in costly:
        _, _, graph, launch = own
        for block in case.blocks_of(graph, launch) if not graph.gpu else ():
            takes = sum(item[0] for item in costly if _place(item) in block.launches)
            atens = sum(kernel.taken_ms for kernel in block.eager_kernels if _ADDS.search(kernel.name))
            if takes and atens:
                parts[_place(own)] = max(1 - atens / takes, 0.0)
    return parts


def _guessed(machine: Machine, item: _Costly, beside: Mapping[tuple[str, int], float]) -> Claim:
    """What a launch may save that is not known to take longer than in eager; on a GPU surely no more than it
    takes over what such kernels do, where that is known, and on a CPU no more than over ATen's."""
    ms, _, graph, launch = item
    if not graph.gpu:
        low, high = (part * ms for part in _BY_ATEN)
        high = min(high, beside.get(_place(item), 1.0) * ms)
        low = min(low, high / FACTOR)
    else:
        (least, usual), _ = least_of(machine, graph, launch)
        low = ms * SAVED / FACTOR
        low = min(low, (launch.ms - usual) * graph.runs) if usual < launch.ms else low
        high = min(ms * SAVED, (launch.ms - least) * graph.runs)
    return on_launch(graph, launch, (max(low, 0.0), max(high, 0.0)), "estimated")


def _place(item: _Costly) -> tuple[str, int]:
    """How a block knows a launch."""
    return item[2].name, item[3].call.index


def _beyond(claim: Claim, lost_ms: float) -> Claim:
    """What may be saved beyond what was lost against eager, which is claimed as that."""
    low, high = claim.ms
    return replace(claim, ms=(max(low - lost_ms, 0.0), max(high - lost_ms, 0.0)))


def _few_cells(graph: GraphCase, launch: Launch) -> int:
    """Elements of what the launch adds to, where so many are added that they wait for each other; 0 else."""
    nodes = (graph.artifacts.fx_nodes[name] for name in launch.fx if name in graph.artifacts.fx_nodes)
    metas = (node.meta for node in nodes if _SCATTERS.search(node.target) and node.meta is not None)
    cells = max((numel(meta.shape) or 0 for meta in metas), default=0)
    return cells if 0 < cells * _FEW <= _added(launch) else 0


def _by_data_advice(graph: GraphCase, sorting_ms: float | None, lost: bool) -> str:
    """`sorting_ms` is what sorting by index first takes, where that is longer; `lost` whether to leave it to
    ATen is told anyway, or would save nothing."""
    if not graph.gpu:
        return _ON_CPU if lost else _LEFT + _ON_CPU
    return _SORTS.format(_ADVICE, duration(sorting_ms)) if sorting_ms is not None else _SORT + _ADVICE


def _lost(case: Case, costly: Sequence[_Costly]) -> list[tuple[int, Block, float]]:
    """Blocks that surely take longer than in eager, with their places, and what they lost by adding so."""
    lost = []
    for number, block in case.slower:
        own = [item[0] for item in costly if item[3].role != "fallback" and _place(item) in block.launches]
        if own:
            lost.append((number, block, min(sum(own), block.difference_ms)))
    return lost


def _as_eager(lost: Sequence[tuple[int, Block, float]]) -> str:
    """Advice to leave the adding to ATen, with what all that the blocks do takes in eager."""
    took = duration(sum(block.eager_ms or 0.0 for _, block, _ in lost))
    more = " and register_autograd" if any(block.phase == "backward" for _, block, _ in lost) else ""
    return (
        f"leave it to ATen, which in eager takes {took} with all around it: call it in a "
        f"torch.library.custom_op (with register_fake{more}); or "
    )


def _sorting_ms(case: Case, graph: GraphCase, launch: Launch) -> float:
    """What eager takes to sort by index and to add up what the launch adds one by one."""
    own = (kernel for block in case.blocks_of(graph, launch) for kernel in block.eager_kernels)
    return sum(kernel.ms for kernel in own if _SORTING.search(kernel.name))


def _title(costly: Sequence[_Costly]) -> str:
    """Of all launches, the longest first."""
    ms, points, _, launch = costly[0]
    said = f"{_many(points)} are added into cells one by one ({timed(launch, ms)})"
    if len(costly) == 1:
        return said
    others = costly[1:]
    counts, rest = [count for _, count, _, _ in others], sum(ms for ms, _, _, _ in others)
    where = "another kernel" if len(others) == 1 else f"{len(others)} other kernels"
    more = f"{sum(counts):,}" if all(counts) else "more"
    return f"{said}, and {more} in {where} ({duration(rest)})"


def _many(elements: int) -> str:
    """Of symbolic sizes it is not known how many."""
    return f"{elements:,} elements" if elements else "elements"


def _places(graph: GraphCase, launch: Launch) -> tuple[SourceLocation, ...]:
    """The user's lines whose operators add most elements; the launch's where that is not known."""
    adding = max(filter(_adds, launch.leaves), key=_elements, default=None)
    own = (node.sources for node in graph.fusion.nodes if adding is not None and node.name == adding.name)
    places = next(own, ()) or launch.sources
    if places and not is_library(places[0].path):
        return places
    return _gathered(graph, launch) or places


def _gathered(graph: GraphCase, launch: Launch) -> tuple[SourceLocation, ...]:
    """The user's lines that gather with the same indices: a gradient that is taken inside of a graph has a
    line of torch's (torch/_functorch/eager_transforms.py)."""
    nodes = graph.artifacts.fx_nodes
    puts = (nodes[name] for name in launch.fx if name in nodes)
    added = {node.inputs[1:-1] for node in puts if operator(node.target).rstrip("_").endswith("index_put")}
    gathers = (node for node in nodes.values() if operator(node.target).endswith("index"))
    lines = (node.source for node in gathers if node.inputs[1:] in added)
    return tuple(dict.fromkeys(line for line in lines if line is not None and not is_library(line.path)))


def _adds(leaf: SchedulerNode) -> bool:
    """``ops.store('buf0', get_index_2, load, 'atomic_add')``"""
    return any("'atomic_add'" in line for line in leaf.body_lines)


def _added(launch: Launch) -> int:
    """Elements that the launch's own additions go over: not those of other loops in the same kernel."""
    return sum(map(_elements, filter(_adds, launch.leaves))) or launch.points or 0


def _elements(leaf: SchedulerNode) -> int:
    return (numel(leaf.sizes[0]) or 0) * (numel(leaf.sizes[1]) or 0) if leaf.sizes is not None else 0


def _by_data(launch: Launch) -> bool:
    """Not where the forward pass worked the indices out and kept them."""
    if launch.role == "fallback":
        return True
    adding = (leaf for leaf in launch.leaves if _adds(leaf))
    return _WORKED_OUT not in launch.name and any(map(indexed_by_data, adding))


def _largest_input(graph: GraphCase, launch: Launch) -> int:
    """Elements of the largest tensor that the launch's operators add, which is not what they add to."""
    nodes = graph.artifacts.fx_nodes
    first = 0 if "embedding_dense_backward" in launch.name else 1
    names = {name for own in launch.fx if own in nodes for name in nodes[own].inputs[first:]}
    metas = [nodes[name].meta for name in names if name in nodes]
    reader = IndexReader(graph.hints)
    return max((reader.numel(meta.shape) or 0 for meta in metas if meta is not None), default=0)


RULE = Rule("atomics", Stage.CODE, find, other_work=True)
