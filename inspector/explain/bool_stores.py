"""Masks that generated C++ stores as bools, and what that takes.

Vectors of numbers become bools in plain loops (VecMask::store and VecMaskTo in
torch/include/ATen/cpu/vec/vec_mask.h), which Inductor tells g++ to leave without vectors
(torch/_inductor/cpp_builder.py: fno-tree-loop-vectorize). What each element takes was timed:
benchmarks/results/bool-masks.txt.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.model.account import Interval

from .case import Case, GraphCase, Launch
from .cpp_loops import counted_nests, starts_threads
from .estimate import FACTOR, memory_ms, peak

STORED_NS = 10.0
"""One thread's time for one element with AVX-512; with AVX2 half of it."""
# Linux-6.8.0-x86_64-with-glibc2.36: elsewhere nobody timed it, and the compiler is another.
_TIMED = re.compile(r"Linux.*x86_64")
# bool* out_ptr0, bool* __restrict__ out_ptr0
_BOOLS = re.compile(r"\bbool\s*\*\s*(?:__restrict__\s+)?(\w+)")
# tmp3.store(out_ptr0 + static_cast<int64_t>(x0), ...
_STORED = re.compile(r"\.store\((\w+) \+")


class BoolStores(NamedTuple):
    """Elements that loops with vectors store as bools in one launch, and what that takes of a call."""

    elements: int
    ms: Interval


def bool_stores(case: Case, graph: GraphCase, launch: Launch) -> BoolStores:
    """By what an element takes, and of a launch that was timed no more than it takes beyond its bytes; none
    where nobody timed what an element takes."""
    elements = _stored(case, graph, launch)
    threads = (case.threads or 2) if starts_threads(launch.source) else 1
    most = elements * STORED_NS / threads / 1e6
    if launch.measured:
        device = peak(case.facts.devices, False, case.threads)
        most = min(most, max(launch.ms - memory_ms(launch.bytes or 0, device, gpu=False), 0.0))
    return BoolStores(elements, (most / FACTOR * graph.runs, most * graph.runs))


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
