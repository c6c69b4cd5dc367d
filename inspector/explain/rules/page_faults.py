"""A compiled call gets memory from the system, and touches it for the first time, in each call anew.

Looks at: page faults counted in steady calls of both sides (getrusage(2): ru_minflt, of all threads), times
what one costs the machine that captured; sure to come again are those that the captured run had, too. malloc
hands back what is freed above M_TRIM_THRESHOLD at the heap's top, and maps and unmaps what is larger than
M_MMAP_THRESHOLD (mallopt(3)).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inspector.analysis.steady import RUN_TO_RUN
from inspector.explain.case import Case
from inspector.explain.claims import on_block, on_whole
from inspector.explain.in_vain import PAGE, saved_bytes, trains
from inspector.explain.rule import Rule, Stage, block_evidence, severity_of
from inspector.model.account import Claim, Interval
from inspector.model.explain import Evidence, Finding, Trial
from inspector.units import count, duration_range, plural

MAPPED = 128 << 10
"""Bytes of M_MMAP_THRESHOLD, as mallopt(3) has it to begin with."""
_KEEP = str(1 << 30)
KEPT_MEMORY = Trial(environment=(("MALLOC_MMAP_THRESHOLD_", _KEEP), ("MALLOC_TRIM_THRESHOLD_", _KEEP)))
"""With these glibc keeps what a program frees; kmeans_lloyd was 2.5 times faster with them."""
_KEEPERS = ("jemalloc", "tcmalloc", "mimalloc")


def find(case: Case) -> Iterable[Finding]:
    manifest, times = case.facts.manifest, case.times
    each = manifest.page_fault_us if manifest is not None else ()
    if case.gpu or case.in_eager or not each or times.faults is None or times.eager_faults is None:
        return
    # Where a call is no slower, those that it has in common with eager could be gained as well.
    others = times.eager_faults if times.outcome == "slower" else _in_vain(case)
    more = times.faults - others
    there = times.faults if times.captured_faults is None else min(times.captured_faults, times.faults)
    least = max(there - others, 0.0)
    cost: Interval = (least * each[0] / 1e3, min(more * each[1] / 1e3, case.wall_ms))
    share = case.share(cost[0]) or 0.0
    if more <= 0 or (times.faults <= times.eager_faults and share < RUN_TO_RUN):
        return
    once = f" ({count(round(there))} in the captured run)" if there < times.faults else ""
    advice, trial = _advice(case)
    blocks = tuple(item for _, block in case.slower[:1] for item in block_evidence(case, block)[:1])
    yield Finding(
        rule="page_faults",
        severity=severity_of(case.share(cost[0])),
        title=f"{plural(round(times.faults), 'page fault')} a call{once}, "
        f"{count(round(times.eager_faults))} in eager: memory given back to the system after each call and "
        f"fetched again costs {duration_range(cost)}",
        graph=None,
        cost_ms=cost[0],
        evidence=(
            *blocks,
            Evidence("inspector.json", None, f"one costs {each[0]:.2g} to {each[1]:.2g} us here"),
        ),
        advice=advice,
        how="measured",
        share=case.share(cost[0]),
        trial=trial,
        claims=tuple(_claims(case, cost)),
    )


def _in_vain(case: Case) -> float:
    """Page faults of a call by activations that are saved for no backward: who saves them is the cause."""
    if trains(case):
        return 0.0
    return sum(saved_bytes(graph) * graph.runs for graph in case.graphs) / PAGE


def _claims(case: Case, cost: Interval) -> Iterator[Claim]:
    """Of blocks that lost and touch that much memory, the rest of the whole; else what could be gained."""
    least, most = cost
    if case.times.outcome != "slower":
        yield on_whole(cost, "counted")
        return
    touched = {
        (graph.name, item.call.index) for graph, item in case.launches() if (item.bytes or 0) >= MAPPED
    }
    for number, block in sorted(case.slower, key=lambda item: -item[1].difference_ms):
        room = block.difference_ms
        if touched.intersection(block.launches) and most > 0:
            yield on_block(number, (min(least, room), min(most, room)), "counted")
            least, most = max(least - room, 0.0), max(most - room, 0.0)
    if most > 0:
        yield on_whole((least, most), "counted", "eager")


def _advice(case: Case) -> tuple[str, Trial | None]:
    """What the program does not do already."""
    given = {
        name: value
        for process in case.facts.calls
        if process.state is not None
        for name, value in process.state.environment.items()
    }
    kept = any(name in given for name, _ in KEPT_MEMORY.environment)
    other = any(name in given.get("LD_PRELOAD", "") for name in _KEEPERS)
    own = "write into memory that the program keeps (out=, a preallocated tensor)"
    if kept or other:
        return own, None
    return (
        f"{KEPT_MEMORY.label} in the environment let glibc keep it, as jemalloc and tcmalloc do by "
        f"LD_PRELOAD (python -m torch.backends.xeon.run_cpu sets one up); or {own}",
        KEPT_MEMORY,
    )


RULE = Rule("page_faults", Stage.LOST, find)
