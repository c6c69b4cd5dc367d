"""Tensors move between CPU and GPU inside a call.

Looks at: FX nodes that change the device; where calls and kernels were timed, how long the GPU waited; with a
profile, copies between graphs from and to memory that is not pinned, while the GPU does nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from inspector.explain.case import Case
from inspector.explain.claims import on_part
from inspector.explain.doubts import profile_fits
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.explain.transfers import Transfer, transfers, waiting_ms
from inspector.model.account import TRANSFERS
from inspector.model.explain import Evidence, Finding
from inspector.units import duration, plural, size

_MOST_LOOKED_AT = 100
"""Lines that move something: which loop each is in is looked for upwards."""
# x.to(DEVICE), batch.cuda(), out.cpu()
_MOVES = re.compile(r"\.(?:cuda|cpu)\(|\.to\([^)]*(?:dev|cuda|cpu)", re.IGNORECASE)


def find(case: Case) -> Iterable[Finding]:
    moved = transfers(case)
    if not moved:
        yield from _between_graphs(case)
        return
    cost, measured = waiting_ms(case)
    share = case.share(cost)
    # Where nothing says what a call waits for, that it waits for these is worth a look.
    profiled = case.sides is not None and case.sides.joined.compiled is not None
    amount = size(sum(item.bytes for item in moved))
    yield Finding(
        rule="device_transfer",
        severity=severity_of(share, at_least="low" if profiled else "medium"),
        title=f"{plural(len(moved), 'transfer')} between CPU and GPU in a call, {amount}",
        graph=None,
        cost_ms=cost,
        evidence=tuple(_evidence(case, item) for item in moved[:5]),
        advice="make or move the tensor on the GPU once, outside the compiled function",
        how="replayed" if measured else "estimated",
        share=share,
    )


def _between_graphs(case: Case) -> Iterable[Finding]:
    sides = case.sides.joined if case.sides is not None else None
    if sides is None or sides.compiled is None or not profile_fits(case):
        return
    ms, eager = sides.compiled.pageable_ms, sides.eager
    if ms < case.noise_ms:
        return
    share = case.share(ms)
    against = f", {duration(eager.pageable_ms)} in eager" if eager is not None else ""
    lines = ((program, at) for program in case.programs for at in range(1, len(program.lines) + 1))
    moving = islice((each for each in lines if _MOVES.search(each[0].line(each[1]))), _MOST_LOOKED_AT)
    looped = [item.evidence(at) for item, at in moving if item.in_loop(at)]
    yield Finding(
        rule="device_transfer",
        severity="low",
        title=f"copies from and to memory that is not pinned take {duration(ms)} of {duration(case.wall_ms)} "
        f"a call{against}, and the GPU does nothing else",
        graph=None,
        cost_ms=ms,
        evidence=tuple(looped[:3]) or (Evidence(case.facts.root, None, "the profile's copies"),),
        advice="keep the data on the GPU, or pin it (DataLoader(pin_memory=True), x.pin_memory()) and copy "
        "the next batch with non_blocking=True on another stream meanwhile",
        how="measured",
        share=share,
        # Pinned, it still moves; how much faster nobody measured.
        claims=(on_part(TRANSFERS, (0.0, ms), "profiled"),),
    )


def _evidence(case: Case, item: Transfer) -> Evidence:
    if item.node.source is not None:
        return source_evidence(case, item.node.source)
    return item.graph.place("fx_graph_transformed.py", item.node.line, item.node.target)


RULE = Rule("device_transfer", Stage.PROGRAM, find)
