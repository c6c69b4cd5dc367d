"""The program measures something else than it means to: compiling, making or moving data, launching alone.

Looks at: the user's source, between reading a clock and taking the difference, which never runs; operators in
which the host waits for the device, where calls were profiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from inspector.analysis.steady import LOOKS, RUN_TO_RUN, SAME
from inspector.explain.case import Case
from inspector.explain.changes import Change, before
from inspector.explain.ledger import outside_share
from inspector.explain.program import Program
from inspector.explain.rule import Rule, Stage
from inspector.explain.timed_regions import TimedRegion
from inspector.model.explain import Finding, Severity
from inspector.model.two_sides import Block, Sides
from inspector.units import duration, plural


def find(case: Case) -> Iterable[Finding]:
    for program in case.programs:
        regions = [region for region in program.regions if region.calls_compiled]
        # What a job takes has all of it in, as the finding on what compiling costs says.
        measuring = [region for region in regions if not region.job]
        # Who times calls apart from those, too, knows that the first ones are others; and what is around a
        # job that has them is the time of that job.
        apart = any(item.named or item.job or not item.includes_first_call for item in regions)
        first = [item for item in measuring if item.includes_first_call and not (item.robust or apart)]
        data = [item for item in measuring if item.data_lines or item.transfer_lines or item.compile_lines]
        if first:
            yield _first_call(case, program, first[0])
        elif data:
            yield _data(case, program, data[0])
        elif case.gpu and not _waiting(case) and any(not region.waits for region in regions):
            yield _not_waiting(program, next(region for region in regions if not region.waits))


def _waiting(case: Case) -> bool:
    """Whether calls wait for the device by themselves, where they were profiled."""
    return case.sides is not None and bool(case.sides.joined.waiting)


def _remark(
    program: Program,
    region: TimedRegion,
    title: str,
    advice: str,
    lines: tuple[int, ...],
    wrong: bool = False,
    change: Change = (),
) -> Finding:
    """Loud only where what the program concludes from its times is `wrong`. A loop that logs the time of each
    of its rounds, or of a whole training, concludes nothing."""
    severity: Severity = "low" if region.logged else "high" if wrong else "medium"
    evidence = (program.evidence(number) for number in dict.fromkeys(lines))
    return Finding(
        rule="benchmark_artifact",
        severity=severity,
        title=title,
        graph=None,
        cost_ms=None,
        evidence=tuple(evidence),
        advice=advice,
        how="measured",
        account="remark",
        change=() if region.logged else change,
    )


def _first_call(case: Case, program: Program, region: TimedRegion) -> Finding:
    cold = case.times.cold_ms
    which = "first time told of what begins" if region.logged else "timing"
    return _remark(
        program,
        region,
        f"the {which} at line {region.first} includes the first call"
        + (f": {duration(cold)} of compiling are in its time" if cold else ", and so compiling"),
        "call the compiled function a few times before reading the clock, then take the median of many calls",
        (region.first, *region.compile_lines, region.last),
        wrong=_flips(case),
        change=_warm_up(program, region),
    )


def _flips(case: Case) -> bool:
    """Whether the program sees compiled code lose that surely does not. Without eager's time, whether most of
    what it sees is compiling."""
    times = case.times
    if not times.cold_ms or not times.calls or times.compiled_ms is None:
        return True
    seen = times.compiled_ms + times.cold_ms / times.calls
    if times.eager_ms is None:
        return seen > 2 * times.compiled_ms
    return times.outcome in ("faster", "same") and seen > times.eager_ms


def _warm_up(program: Program, region: TimedRegion) -> Change:
    """The first compiled call inside the clock, made once before it; nothing where a loop would repeat it."""
    if program.in_loop(region.first):
        return ()
    inside = range(region.first + 1, region.last + 1)
    names = [re.escape(name) for name in program.compiled_names]
    called = re.compile(rf"\b({'|'.join(names)})\s*\(") if names else None
    for number in inside:
        text = program.line(number)
        if called is not None and called.search(text) and "compile(" not in text:
            return before(program, region.first, f"{text}  # compiles, before the clock runs")
    return ()


def _not_waiting(program: Program, region: TimedRegion) -> Finding:
    return _remark(
        program,
        region,
        f"the timing at line {region.first} ends before the GPU does: it measures launching alone",
        "torch.cuda.synchronize() before each reading of the clock, or CUDA events",
        (region.first, region.last),
        wrong=True,
    )


def _data(case: Case, program: Program, region: TimedRegion) -> Finding:
    """Quiet where it was seen to take no part of the time that anybody would see."""
    lines = (*region.data_lines, *region.transfer_lines, *region.compile_lines)
    what = (
        "makes its data"
        if region.data_lines
        else "moves data between devices"
        if region.transfer_lines
        else "compiles"
    )
    remark = _remark(
        program,
        region,
        f"the timing at line {region.first} also {what} ({plural(len(lines), 'line')} inside the clock)",
        "make the data, on its device, before reading the clock",
        (region.first, *lines),
    )
    return (
        replace(remark, severity="low") if _little_else(case) or _rarely_at(case, program, lines) else remark
    )


def _little_else(case: Case) -> bool:
    """Whether calls were profiled, and what is neither compiled code nor its host takes little of them."""
    side = case.sides.joined.compiled if case.sides is not None else None
    if case.sides is None or side is None or not side.wall_ms:
        return False
    return side.transfers_ms / side.wall_ms + outside_share(side, _outside(case.sides)) <= SAME


def _rarely_at(case: Case, program: Program, lines: Sequence[int]) -> bool:
    """Whether the recorder's looks at the program found it at these lines for little of the time, and a GPU,
    which may be at it later, has little to do outside of compiled code."""
    span = case.times.span
    if span is None or span.looks < LOOKS:
        return False
    there = sum(
        looks for place, looks in span.lines if place.line in lines and program in case.programs_of(place)
    )
    if there / span.looks * span.outside > RUN_TO_RUN:
        return False
    side = case.sides.joined.compiled if case.sides is not None else None
    if not case.gpu or case.sides is None or side is None:
        return not case.gpu
    return sum(block.compiled_ms or 0.0 for block in _outside(case.sides)) <= SAME * side.work_ms


def _outside(sides: Sides) -> Iterator[Block]:
    return (block for block in sides.joined.blocks if not block.launches)


RULE = Rule("benchmark_artifact", Stage.PROGRAM, find)
