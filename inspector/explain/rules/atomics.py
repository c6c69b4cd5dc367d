"""Kernels that add into shared memory cells one by one: scatter, index_add, the backward of an embedding.

Looks at: ``atomic_add`` in generated C++ and Triton, and the elements that go through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.cpp_loops import loop_nests
from inspector.explain.estimate import ATOMIC_NS
from inspector.explain.rule import Rule, Stage, amount, severity_of, source_evidence
from inspector.model.explain import Finding

LEAST_POINTS = 4096
# tl.atomic_add(out_ptr0, ...) and atomic_add(&out_ptr0[0], ...), but not 'atomic_add_found': False
_ATOMIC = re.compile(r"\batomic_add(?:_vec)?(?:<[^>]*>)?\s*\(")
SAVED = 0.7
"""Against sorting by index first, or a reduction where the indices allow one."""


def find(case: Case) -> Iterable[Finding]:
    found = []
    for graph, launch in case.launches():
        if not _ATOMIC.search(launch.source):
            continue
        part = 1.0
        points = launch.points or 0
        if not graph.gpu:
            nests = loop_nests(launch.source)
            weights = [
                float(nest.points or launch.points or 0)
                * (ATOMIC_NS if nest.atomic else 0.5 if nest.vectorised else 1.0)
                for nest in nests
            ]
            atomic = [weight for nest, weight in zip(nests, weights, strict=True) if nest.atomic]
            part = sum(atomic) / sum(weights) if sum(weights) else 1.0
            points = int(sum(atomic) / ATOMIC_NS)
        if points >= LEAST_POINTS:
            found.append((graph.ms(launch) * part, points, graph, launch))
    if not found:
        return
    found.sort(key=lambda item: -item[0])
    cost = sum(ms for ms, _, _, _ in found) * SAVED
    if case.times.compiled_ms is not None and not case.kernels_measured:
        cost = min(cost, case.times.compiled_ms)
    share = case.share(cost)
    _, points, graph, launch = found[0]
    evidence = []
    for ms, count, owner, kernel in found[:3]:
        evidence.append(owner.launch_evidence(kernel, f"{count:,} atomic adds, {amount(ms)}: {kernel.name}"))
        evidence += [source_evidence(case, place) for place in kernel.sources[:1]]
    yield Finding(
        rule="atomics",
        severity=severity_of(share),
        title=f"{points:,} elements are added one by one with atomics ({amount(found[0][0])})",
        graph=graph.name,
        cost_ms=cost,
        evidence=tuple(evidence),
        advice=(
            "sort by index and reduce segments, use a one-hot matmul for few targets, or "
            "an operator with a library kernel (embedding_bag)"
        ),
        share=share,
    )


RULE = Rule("atomics", Stage.CODE, find)
