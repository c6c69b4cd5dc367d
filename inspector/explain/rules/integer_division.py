"""A Triton kernel that divides 64-bit integers, which a GPU has no instruction for.

Looks at: kernels whose time was measured, the divisions in their source by what is no constant, sizes of
what is compiled for any size included, and what one takes on this machine, measured with its peaks
(inspector/hardware/costs.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inspector.analysis.dataflow import operator
from inspector.analysis.divisions import DIVIDE, size_divisions, wide_divisions
from inspector.analysis.index_ranges import IndexReader
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.launches import code_line
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.explain.sized_calls import few_sizes
from inspector.model.account import Interval
from inspector.model.code import Kernel
from inspector.model.explain import Finding, Trial
from inspector.model.source import SourceLocation, own_first
from inspector.units import duration, plural

# xnumel = 2359296 ; r0_numel = 1024
_EXTENT = re.compile(r"^\s*([a-z])\d*_?numel = (\d+)\s*$", re.M)
_SHOWN = 3
"""Of kernels, and of lines."""
_ADVICE = (
    "leave the division out: after a sum or difference of two that are below the modulus add or subtract "
    "it once (torch.where(s >= q, s - q, s)); divide by a Python number where it is always the same, which "
    "the compiler makes a multiplication of; shift (>>) and mask (&) for a power of two"
)
_BY_SIZES = (
    "compile for each size (dynamic=False, or torch._dynamo.mark_static), where there are few: by a "
    "number that it knows the compiler multiplies instead"
)
_TO_INDEX = " by sizes that are symbols"


class _Item(NamedTuple):
    graph: GraphCase
    launch: Launch
    lines: tuple[int, ...]
    ms: Interval
    by_sizes: bool


def find(case: Case) -> Iterable[Finding]:
    """One finding, of all such kernels."""
    machine = machine_of(case)
    items = [item for graph, launch in case.launches() if (item := _item(machine, graph, launch)) is not None]
    if not items:
        return
    items.sort(key=lambda item: -item.ms[1])
    first = items[0]
    whole = sum(item.graph.ms(item.launch) for item in items)
    cost = case.within_call(sum(item.ms[1] for item in items))
    most = max(items, key=lambda item: len(item.lines))
    evidence = [
        item.graph.place(
            "output_code.py",
            code_line(item.launch.kernel, item.lines[0]),
            f"{plural(len(item.lines), 'division')} for each element, "
            f"{timed(item.launch, item.graph.ms(item.launch))}",
        )
        for item in items[:_SHOWN]
    ]
    share = case.share(cost)
    lines = first.launch.sources[:1] if first.by_sizes else _divided_at(items)
    yield Finding(
        rule="integer_division",
        severity=severity_of(share),
        title=(
            f"{plural(len(items), 'kernel')} {'divides' if len(items) == 1 else 'divide'} 64-bit integers, "
            f"up to {plural(len(most.lines), 'time')} for each element"
            f"{_TO_INDEX if first.by_sizes else ''}: {duration(whole)} a call, and a GPU has no instruction "
            "for that"
        ),
        graph=first.graph.name,
        cost_ms=cost,
        claims=tuple(on_launch(item.graph, item.launch, item.ms, "estimated") for item in items),
        evidence=(*(source_evidence(case, place) for place in lines), *evidence),
        advice=_BY_SIZES if first.by_sizes else _ADVICE,
        how="estimated" if first.by_sizes else how_timed(item.launch for item in items),
        share=share,
        trial=Trial(dynamic=False) if first.by_sizes and few_sizes(case) else None,
    )


def _item(machine: Machine, graph: GraphCase, launch: Launch) -> _Item | None:
    """What the divisions of a launch take, per steady call, and no more than it takes over its least."""
    costs = machine.peaks.costs if machine.peaks is not None else None
    if costs is None or costs.division_s is None or costs.wide_division_s is None:
        return None
    kernel = launch.kernel
    if not (graph.gpu and launch.measured and graph.runs) or kernel is None or launch.role != "generated":
        return None
    lines, by_sizes = wide_divisions(kernel), size_divisions(kernel)
    extents = _extents(graph, launch, kernel) if lines or by_sizes else None
    if extents is None:
        return None
    rows, points = extents
    # What is divided behind a reduction is divided once for a row.
    to_index = sum(points if inner else rows for _, inner in by_sizes)
    least, usual = least_of(machine, graph, launch)[0]
    low = min((len(lines) * rows + to_index) * costs.division_s * 1e3, launch.ms - usual)
    high = min((len(lines) * points + to_index) * costs.wide_division_s * 1e3, launch.ms - least)
    if high <= 0:
        return None
    took = (max(low, 0.0) * graph.runs, high * graph.runs)
    both = (*lines, *(line for line, _ in by_sizes))
    return _Item(graph, launch, both, took, len(by_sizes) > len(lines))


def _extents(graph: GraphCase, launch: Launch, kernel: Kernel) -> tuple[int, int] | None:
    """(rows, elements) that it goes over: by its source, or where sizes are symbols by what they were."""
    if extents := _EXTENT.findall(kernel.source):
        rows = math.prod(int(extent) for name, extent in extents if name != "r")
        return rows, math.prod(int(extent) for _, extent in extents)
    reader = IndexReader(graph.hints)
    sizes = (leaf.sizes for leaf in launch.leaves if leaf.sizes is not None)
    counted = [(reader.numel(outer), reader.numel(inner)) for outer, inner in sizes]
    known = [(outer, outer * inner) for outer, inner in counted if outer is not None and inner is not None]
    return max(known, key=lambda own: own[1], default=None)


def _divided_at(items: Sequence[_Item]) -> list[SourceLocation]:
    """The lines that divide most, of the program's own where it has some."""
    places: Counter[SourceLocation] = Counter()
    for item in items:
        nodes = item.graph.artifacts.fx_nodes
        own = [nodes[name] for name in item.launch.fx if name in nodes]
        places.update(
            node.source for node in own if operator(node.target) in DIVIDE and node.source is not None
        )
    return own_first(place for place, _ in places.most_common())[:_SHOWN]


RULE = Rule("integer_division", Stage.CODE, find, other_work=True)
