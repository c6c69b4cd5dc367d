"""Elements that are added into shared memory cells one by one: scatter, index_add, an embedding's backward.

Looks at: ``atomic_add`` in generated C++ and Triton, and the elements that go through it; scatters that torch
leaves to ATen for the same reason (torch/_inductor/utils.py: use_scatter_fallback).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.cpp_loops import loop_nests
from inspector.explain.estimate import ATOMIC_NS
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence, timed
from inspector.model.explain import Finding
from inspector.model.source import numel

LEAST_POINTS = 4096
# tl.atomic_add(out_ptr0, ...) and atomic_add(&out_ptr0[0], ...), but not 'atomic_add_found': False
_ATOMIC = re.compile(r"\batomic_add(?:_vec)?(?:<[^>]*>)?\s*\(")
_FALLBACK = re.compile(r"\b(scatter_(?:add|reduce)\w*|index_add\w*|embedding_dense_backward)\b")
SAVED = 0.7
"""Against sorting by index first, or a reduction where the indices allow one."""


def find(case: Case) -> Iterable[Finding]:
    costly = []
    own = False
    for graph, launch in case.launches():
        if launch.role == "fallback" and _FALLBACK.search(launch.name):
            costly.append((graph.ms(launch), _largest_input(graph, launch), graph, launch))
            continue
        if not _ATOMIC.search(launch.source):
            continue
        own = True
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
            costly.append((graph.ms(launch) * part, points, graph, launch))
    if not costly:
        return
    costly.sort(key=lambda item: -item[0])
    cost = case.within_call(sum(ms for ms, _, _, _ in costly) * SAVED)
    share = case.share(cost)
    _, points, graph, launch = costly[0]
    evidence = []
    for ms, count, owner, kernel in costly[:3]:
        evidence.append(
            owner.launch_evidence(kernel, f"{count:,} elements, {timed(kernel, ms)}: {kernel.name}")
        )
        evidence += [source_evidence(case, place) for place in kernel.sources[:1]]
    yield Finding(
        rule="atomics",
        # That there is no kernel for it comes first, where there is none.
        severity=severity_of(share, at_most="high" if own else "medium"),
        title=f"{points:,} elements are added into cells one by one ({timed(launch, costly[0][0])})",
        graph=graph.name,
        cost_ms=cost,
        claims=on_launches(((owner, kernel, ms) for ms, _, owner, kernel in costly), "estimated", cost),
        evidence=tuple(evidence),
        advice=(
            "sort by index and reduce segments, use a one-hot matmul for few targets, or "
            "an operator with a library kernel (embedding_bag)"
        ),
        share=share,
    )


def _largest_input(graph: GraphCase, launch: Launch) -> int:
    """Elements of the largest tensor that the launch's operators are handed."""
    fx = graph.artifacts.fx_after
    nodes = {node.name: node for node in fx.nodes} if fx is not None else {}
    names = {name for own in launch.fx if own in nodes for name in nodes[own].inputs}
    metas = [nodes[name].meta for name in names if name in nodes]
    return max((numel(meta.shape) or 0 for meta in metas if meta is not None), default=0)


RULE = Rule("atomics", Stage.CODE, find)
