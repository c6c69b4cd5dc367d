"""Inductor's own random numbers take longer than ATen's.

Looks at: generated kernels that draw random numbers, beside what ATen takes for the same alone; else blocks
of both profiles that lose more than their kernels that draw none take. Inductor computes each number from a
counter (Philox), element by element; ATen fills a tensor with its own generator
(torch/_inductor/fx_passes/replace_random.py; config.fallback_random).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from inspector.analysis.index_ranges import IndexReader
from inspector.analysis.whole_operators import RANDOM
from inspector.explain.block_words import both_times, label
from inspector.explain.bool_stores import bool_stores
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.cpp_loops import starts_threads
from inspector.explain.launches import fetches, loop_points
from inspector.explain.rule import Rule, Stage, lost_finding, severity_of, source_evidence
from inspector.explain.whole_operators import Slower, found_slower, slower_operators
from inspector.model.account import Interval
from inspector.model.explain import Finding, Trial
from inspector.model.source import SourceLocation
from inspector.model.two_sides import Block
from inspector.units import duration, plural

# rand = ops.rand(load_seed, index_expr)
_DRAWS = re.compile(r"ops\.(?:rand|randn|randint64)\(")
# ops.rand, and not ops.randint64: places that are drawn and then fetched take as long as fetching does
_OF_FLOATS = re.compile(r"ops\.(randn?)\(")
# torch.ops.prims.inductor_random.default([3, 60000], seed, 'randn')
_ASKED = re.compile(r"\binductor_rand(?:om|int)\b")
_ADVICE = (
    "let ATen draw them, as eager does, with the same numbers for the same seed: "
    "torch._inductor.config.fallback_random = True"
)
_TRIAL = Trial(config=(("fallback_random", True),))
MOST_NS = 120.0
"""One number in one thread of a CPU: 16 of uniform ones and 87 of normal ones (g++ 12, AVX-512), up to 120 on
an H200's host. A kernel of much other work draws them in no more."""


_LEAST_NS = {"rand": 8.0, "randn": 17.0}
"""The same at least: half of the least that was measured, 16 of uniform ones, and 35 of normal ones on an AMD
server (480,000 a call by two threads: 9.2 ms, and 0.8 for what else its kernel does)."""


def find(case: Case) -> Iterable[Finding]:
    slower = [_bounded(case, item) for item in slower_operators(case) if RANDOM.intersection(item.names)]
    told = {(item.graph.name, launch.call.index) for item in slower for launch in item.launches}
    slower.sort(key=lambda item: -item.ms[1])
    made = [
        found_slower(case, item, "random_numbers", _title(item, len(slower) - 1), _ADVICE, _TRIAL)
        for item in slower
    ]
    yield from _together(case, made, case.within_call(sum(item.ms[1] for item in slower)))
    drawing = {(graph.name, launch.call.index) for graph, launch in case.launches() if draws(launch)} - told
    lost = [
        (ms, number, block)
        for number, block in case.slower
        if not told.intersection(block.launches) and (ms := _drawn_ms(case, block, drawing))[0] > 0
    ]
    lost.sort(key=lambda item: -item[0][0])
    made = [_lost(case, number, block, ms, drawing) for ms, number, block in lost]
    if more := sum(ms[0] for ms, _, _ in lost[1:]):
        like = f"; and {duration(more)} more in {plural(len(lost) - 1, 'block')} like it"
        made[0] = replace(made[0], title=made[0].title + like)
    yield from _together(case, made, sum(ms[0] for ms, _, _ in lost))


def _bounded(case: Case, item: Slower) -> Slower:
    """What drawing can take and surely does, of what the launches take beside ATen."""
    drawing = [_drawing_ms(case, item.graph, launch) for launch in item.launches]
    most = min(item.ms[1], sum(ms for _, ms in drawing))
    surely = max(item.ms[0], sum(ms for ms, _ in drawing) - item.aten_ms)
    return replace(item, ms=(min(surely, most), most))


def _drawing_ms(case: Case, graph: GraphCase, launch: Launch) -> Interval:
    """What a launch's numbers take of a call; nothing to endless on a GPU, and for sizes nobody knows."""
    reader, numbers, least = IndexReader(graph.hints), 0, 0.0
    for leaf in launch.leaves if not graph.gpu else ():
        text = "\n".join(leaf.body_lines)
        if drawn := len(_DRAWS.findall(text)):
            points = loop_points(leaf, reader)
            if points is None:
                return 0.0, math.inf
            numbers += drawn * points
            least += points * sum(_LEAST_NS[kind] for kind in _OF_FLOATS.findall(text))
    threads = (case.threads or 1) if starts_threads(launch.source) else 1
    each = graph.runs / threads / 1e6
    return least * each, numbers * MOST_NS * each if numbers else math.inf


def _lost(
    case: Case, number: int, block: Block, lost: Interval, drawing: AbstractSet[tuple[str, int]]
) -> Finding:
    """Of a block."""
    title = f"{label(block)}: {both_times(block)}, with random numbers of Inductor's own"
    finding = lost_finding(
        case, [(number, block)], rule="random_numbers", title=title, advice=_ADVICE, trial=_TRIAL
    )
    lines = tuple(source_evidence(case, line) for line in _lines(case, block, drawing)[:2])
    claims = (replace(finding.claims[0], ms=lost),)
    return replace(finding, claims=claims, evidence=(*lines, *finding.evidence[1 if lines else 0 :]))


def _together(case: Case, made: Sequence[Finding], cost: float) -> Iterable[Finding]:
    """One finding: one setting has them all drawn by ATen."""
    if made:
        share = case.share(cost)
        yield replace(
            made[0],
            severity=severity_of(share),
            cost_ms=cost,
            share=share,
            evidence=tuple(dict.fromkeys(item for finding in made[:2] for item in finding.evidence)),
            claims=tuple(claim for finding in made for claim in finding.claims),
        )


def _title(item: Slower, others: int) -> str:
    more = f", and {plural(others, 'other')} like it" if others else ""
    return f"random numbers of Inductor's own ({', '.join(item.names)}): {item.both_times}{more}"


def _drawn_ms(case: Case, block: Block, drawing: AbstractSet[tuple[str, int]]) -> Interval:
    """What launches that draw lost of a block: no more than they take without the masks that they surely
    store slowly, and no less than what the block lost beyond all that its other launches and masks take.
    Nothing surely where they also fetch elements one by one, which may be what is slow."""
    whole = drawn = 0.0
    masks: list[Interval] = []
    fetching = False
    for graph, launch in case.launches_of(block):
        whole += graph.ms(launch)
        if (graph.name, launch.call.index) in drawing:
            drawn += min(graph.ms(launch), _drawing_ms(case, graph, launch)[1])
            masks.append(bool_stores(case, graph, launch).ms)
            fetching = fetching or any(map(fetches, launch.leaves))
    if not whole or not drawn:
        return 0.0, 0.0
    mine = drawn / whole * (block.compiled_ms or 0.0)
    others = (block.compiled_ms or 0.0) - mine
    stored = sum(ms[0] for ms in masks), sum(ms[1] for ms in masks)
    most = min(block.difference_ms, max(mine - stored[0], 0.0))
    least = 0.0 if fetching else max(case.least_lost_ms(block) - others - stored[1], 0.0)
    return min(least, most), most


def _lines(case: Case, block: Block, drawing: AbstractSet[tuple[str, int]]) -> tuple[SourceLocation, ...]:
    """Where what the block's launches draw is asked for."""
    found: dict[SourceLocation, None] = {}
    for graph, launch in case.launches_of(block):
        if (graph.name, launch.call.index) in drawing:
            nodes = graph.artifacts.fx_nodes
            asked = (nodes[name] for name in launch.fx if name in nodes)
            found |= {
                node.source: None for node in asked if _ASKED.search(node.target) and node.source is not None
            }
    return tuple(found)


def draws(launch: Launch) -> bool:
    """Whether a launch computes random numbers."""
    return any(_DRAWS.search(line) for leaf in launch.leaves for line in leaf.body_lines)


RULE = Rule("random_numbers", Stage.LOST, find)
"""Before what only says where compiled loses."""
