"""A kernel for a CPU keeps masks in memory: what a comparison gives that a backward pass needs, a dropout, or
the program itself. Vectors of numbers become bools in plain loops (VecMask::store and VecMaskTo in
torch/include/ATen/cpu/vec/vec_mask.h), which Inductor tells g++ to leave without vectors
(torch/_inductor/cpp_builder.py: fno-tree-loop-vectorize).

Looks at: loop nests of generated C++ with ``at::vec`` that store to a ``bool*``, and how many elements these
have. What each takes was timed: benchmarks/results/bool-masks.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.cpp_loops import loop_nests, starts_threads
from inspector.explain.estimate import FACTOR, memory_ms, peak
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import LOOP_VECTORS, Finding, Trial
from inspector.model.source import SourceLocation
from inspector.units import plural

STORED_NS = 10.0
"""One thread's time for one element with AVX-512; with AVX2 half of it."""
# Linux-6.8.0-x86_64-with-glibc2.36: elsewhere nobody timed it, and the compiler is another.
_TIMED = re.compile(r"Linux.*x86_64")
# bool* out_ptr0, bool* __restrict__ out_ptr0
_BOOLS = re.compile(r"\bbool\s*\*\s*(?:__restrict__\s+)?(\w+)")
# tmp3.store(out_ptr0 + static_cast<int64_t>(x0), ...
_STORED = re.compile(r"\.store\((\w+) \+")
_ADVICE = (
    f"let g++ make vectors of these loops: {LOOP_VECTORS}; or keep numbers in place of masks: "
    "(x > 0).to(x.dtype)"
)


class _Stored(NamedTuple):
    """Elements that a launch stores as bools in one run of its graph, and what that takes of a call."""

    graph: GraphCase
    launch: Launch
    elements: int
    ms: Interval


def find(case: Case) -> Iterable[Finding]:
    manifest = case.facts.manifest
    if manifest is not None and manifest.platform and not _TIMED.match(manifest.platform):
        return
    every = [
        _stored(case, graph, launch)
        for graph, launch in case.launches()
        if not graph.gpu and launch.role == "generated" and launch.call.kind == "cpp"
    ]
    items = sorted((item for item in every if item.ms[1] > 0), key=lambda item: -item.ms[1])
    if not items:
        return
    cost = case.within_call(sum(item.ms[1] for item in items))
    share = case.share(cost)
    evidence = []
    for item in items[:3]:
        text = f"{timed(item.launch, item.launch.ms)}, {item.elements:,} bools: {item.launch.name}"
        evidence.append(item.graph.launch_evidence(item.launch, text))
        evidence += [source_evidence(case, place) for place in _lines(item)[:1]]
    elements = round(sum(item.elements * item.graph.runs for item in items))
    kernels = f"{plural(len(items), 'kernel')} {'turns' if len(items) == 1 else 'turn'}"
    yield Finding(
        rule="bool_masks",
        severity=severity_of(share),
        title=(
            f"{about(cost, 'estimated')} a call in masks of {elements:,} elements, which {kernels} into "
            "bools one by one"
        ),
        graph=items[0].graph.name,
        cost_ms=cost,
        claims=tuple(on_launch(item.graph, item.launch, item.ms, "estimated") for item in items),
        evidence=tuple(evidence),
        advice=_ADVICE,
        how="estimated",
        share=share,
        trial=Trial(loop_vectors=True),
    )


def _stored(case: Case, graph: GraphCase, launch: Launch) -> _Stored:
    bools = set(_BOOLS.findall(launch.source))
    elements = 0
    for nest in loop_nests(launch.source) if bools else ():
        if nest.vectorised:
            points = nest.points if nest.points is not None else (launch.points or 0)
            # What is left over behind the vectors has the same pointers once more.
            elements += points * len(bools.intersection(_STORED.findall(nest.text)))
    return _Stored(graph, launch, elements, _ms(case, graph, launch, elements))


def _ms(case: Case, graph: GraphCase, launch: Launch, elements: int) -> Interval:
    """By what an element takes, and of a launch that was timed no more than it takes beyond its bytes."""
    threads = (case.threads or 2) if starts_threads(launch.source) else 1
    most = elements * STORED_NS / threads / 1e6
    if launch.measured:
        device = peak(case.facts.devices, False, case.threads)
        most = min(most, max(launch.ms - memory_ms(launch.bytes or 0, device, gpu=False), 0.0))
    return most / FACTOR * graph.runs, most * graph.runs


def _lines(item: _Stored) -> tuple[SourceLocation, ...]:
    """Where masks are made."""
    nodes = item.graph.artifacts.fx_nodes
    own = [nodes[name] for name in item.launch.fx if name in nodes]
    made = [node.source for node in own if node.meta is not None and node.meta.dtype == "bool"]
    return tuple(place for place in made if place is not None) or item.launch.sources


RULE = Rule("bool_masks", Stage.LOST, find)
"""Eager's kernels have vectors of bools."""
