"""A kernel for a CPU keeps masks in memory, or reads them: what is behind a comparison that a backward pass
needs, a dropout, a padding. Vectors of numbers become bools, and bools vectors, in plain loops (VecMaskTo and
VecMask::from in torch/include/ATen/cpu/vec/vec_mask.h), which Inductor tells g++ to leave without vectors
(torch/_inductor/cpp_builder.py: fno-tree-loop-vectorize).

Looks at: loop nests of generated C++ with ``at::vec`` that store to a ``bool*`` or make a mask of one, and
how many elements these have. What each takes was timed: benchmarks/results/bool-masks.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.cpp_loops import LoopNest, loop_nests, starts_threads
from inspector.explain.estimate import FACTOR, memory_ms, peak
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Finding
from inspector.model.source import SourceLocation
from inspector.units import plural

STORED_NS, READ_NS = 10.0, 4.0
"""One thread's time for one element with AVX-512; with AVX2 a store takes half of it."""
# const bool* in_ptr3, bool* __restrict__ out_ptr0
_BOOLS = re.compile(r"\bbool\s*\*\s*(?:__restrict__\s+)?(\w+)")
# tmp3.store(out_ptr0 + static_cast<int64_t>(x0), ...
_STORED = re.compile(r"\.store\((\w+) \+")
# at::vec::VecMask<float,1>::from(in_ptr3 + static_cast<int64_t>(x0), ...
_READ = re.compile(r"VecMask<[^>]*>::from\((\w+) \+")
_ADVICE = (
    "let g++ make vectors of these loops: CXX=./g++-loops, a script of two lines, "
    '#!/bin/sh and exec g++ "$@" -ftree-loop-vectorize; or keep numbers in place of masks: '
    "(x > 0).to(x.dtype)"
)


class _Masks(NamedTuple):
    """Elements of a launch that become bools, and that are read as such, in one run of its graph."""

    graph: GraphCase
    launch: Launch
    stored: int
    read: int


def find(case: Case) -> Iterable[Finding]:
    items = [
        masks
        for graph, launch in case.launches()
        if not graph.gpu and launch.role == "generated" and launch.call.kind == "cpp"
        for masks in [_masks(graph, launch)]
        if masks.stored or masks.read
    ]
    claims = {id(item): _ms(case, item) for item in items}
    items = sorted((item for item in items if claims[id(item)][1] > 0), key=lambda item: -claims[id(item)][1])
    if not items:
        return
    cost = case.within_call(sum(claims[id(item)][1] for item in items))
    share = case.share(cost)
    worst = items[0]
    evidence = []
    for item in items[:3]:
        made = [
            f"{count:,} {what}" for count, what in ((item.stored, "stored"), (item.read, "read")) if count
        ]
        text = f"{timed(item.launch, item.launch.ms)}, {' and '.join(made)} as bools: {item.launch.name}"
        evidence.append(item.graph.launch_evidence(item.launch, text))
        evidence += [source_evidence(case, place) for place in _lines(item)[:1]]
    elements = round(sum((item.stored + item.read) * item.graph.runs for item in items))
    kernels = f"{plural(len(items), 'kernel')} {'turns' if len(items) == 1 else 'turn'}"
    yield Finding(
        rule="bool_masks",
        severity=severity_of(share),
        title=(
            f"{about(cost, 'estimated')} a call in masks of {elements:,} elements, which "
            f"{kernels} into bools and back one by one"
        ),
        graph=worst.graph.name,
        cost_ms=cost,
        claims=tuple(on_launch(item.graph, item.launch, claims[id(item)], "estimated") for item in items),
        evidence=tuple(evidence),
        advice=_ADVICE,
        how="estimated",
        share=share,
    )


def _masks(graph: GraphCase, launch: Launch) -> _Masks:
    bools = set(_BOOLS.findall(launch.source))
    stored = read = 0
    for nest in loop_nests(launch.source) if bools else ():
        if nest.vectorised:
            points = nest.points if nest.points is not None else (launch.points or 0)
            stored += points * _places(_STORED, nest, bools)
            read += points * _places(_READ, nest, bools)
    return _Masks(graph, launch, stored, read)


def _places(pattern: re.Pattern[str], nest: LoopNest, bools: set[str]) -> int:
    """How many such pointers: what is left over behind the vectors has them once more."""
    return len({name for name in pattern.findall(nest.text) if name in bools})


def _ms(case: Case, item: _Masks) -> Interval:
    """By what an element takes, and of a launch that was timed no more than it takes beyond its bytes."""
    launch = item.launch
    threads = (case.threads or 2) if starts_threads(launch.source) else 1
    most = (item.stored * STORED_NS + item.read * READ_NS) / threads / 1e6
    if launch.measured:
        device = peak(case.facts.devices, False, case.threads)
        most = min(most, max(launch.ms - memory_ms(launch.bytes or 0, device, gpu=False), 0.0))
    return most / FACTOR * item.graph.runs, most * item.graph.runs


def _lines(item: _Masks) -> tuple[SourceLocation, ...]:
    """Where masks are made; of a kernel that only reads some all of its lines."""
    nodes = item.graph.artifacts.fx_nodes
    own = [nodes[name] for name in item.launch.fx if name in nodes]
    made = [node.source for node in own if node.meta is not None and node.meta.dtype == "bool"]
    return tuple(place for place in made if place is not None) or item.launch.sources


RULE = Rule("bool_masks", Stage.LOST, find)
"""Eager's kernels have vectors of bools."""
