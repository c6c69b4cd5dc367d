"""Masks that generated C++ stores as bools, and what that takes, with the random numbers that they are of.

Vectors of numbers become bools in plain loops (VecMask::store and VecMaskTo in
torch/include/ATen/cpu/vec/vec_mask.h), which Inductor tells g++ to leave without vectors
(torch/_inductor/cpp_builder.py: fno-tree-loop-vectorize), and so are uniform random numbers drawn. What each
element takes was timed: benchmarks/results/bool-masks.txt.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from inspector.analysis.index_ranges import IndexReader
from inspector.model.account import Interval

from .case import Case, GraphCase, Launch
from .cpp_loops import counted_nests, starts_threads
from .estimate import FACTOR, memory_ms, peak
from .launches import loop_points

STORED_NS = 10.0
"""One thread's time for one element with AVX-512; with AVX2 half of it."""
DRAWN_NS = 9.0
"""The same of a uniform number that is drawn for a mask, without what vectors take for it: 7 to 10."""
_UNIFORM = re.compile(r"ops\.rand\(")
# Linux-6.8.0-x86_64-with-glibc2.36: elsewhere nobody timed it, and the compiler is another.
_TIMED = re.compile(r"Linux.*x86_64")
# bool* out_ptr0, bool* __restrict__ out_ptr0
_BOOLS = re.compile(r"\bbool\s*\*\s*(?:__restrict__\s+)?(\w+)")
# tmp3.store(out_ptr0 + static_cast<int64_t>(x0), ...
_STORED = re.compile(r"\.store\((\w+) \+")


class BoolStores(NamedTuple):
    """Elements that loops with vectors store as bools in one launch, and what that takes of a call; and the
    same with the uniform random numbers that it draws, which vectors are as good for."""

    elements: int
    ms: Interval
    numbers: int
    with_numbers_ms: Interval


def bool_stores(case: Case, graph: GraphCase, launch: Launch) -> BoolStores:
    """By what an element takes, and of a launch that was timed no more than it takes beyond its bytes; none
    where nobody timed what an element takes."""
    elements = _stored(case, graph, launch)
    numbers = _drawn(graph, launch) if elements else 0
    threads = (case.threads or 2) if starts_threads(launch.source) else 1
    beyond = math.inf
    if launch.measured:
        device = peak(case.facts.devices, False, case.threads)
        beyond = max(launch.ms - memory_ms(launch.bytes or 0, device, gpu=False), 0.0)
    stored = elements * STORED_NS / threads / 1e6
    alone, both = (min(ms, beyond) for ms in (stored, stored + numbers * DRAWN_NS / threads / 1e6))
    times = ((ms / FACTOR * graph.runs, ms * graph.runs) for ms in (alone, both))
    return BoolStores(elements, next(times), numbers, next(times))


def _drawn(graph: GraphCase, launch: Launch) -> int:
    """Uniform random numbers of one launch."""
    reader = IndexReader(graph.hints)
    bodies = ((leaf, "\n".join(leaf.body_lines)) for leaf in launch.leaves)
    return sum(len(_UNIFORM.findall(text)) * (loop_points(leaf, reader) or 0) for leaf, text in bodies)


def _stored(case: Case, graph: GraphCase, launch: Launch) -> int:
    manifest = case.facts.manifest
    if manifest is not None and manifest.platform and not _TIMED.match(manifest.platform):
        return 0
    if graph.gpu or launch.role != "generated" or launch.call.kind != "cpp":
        return 0
    bools, elements = set(_BOOLS.findall(launch.source)), 0
    for nest in counted_nests(launch.source, launch.points) if bools else ():
        if nest.vectorised:
            # What is left over behind the vectors has the same pointers once more.
            elements += (nest.points or 0) * len(bools.intersection(_STORED.findall(nest.text)))
    return elements
