"""The program measures something else than it means to: compiling, making or moving data, launching alone.

Looks at: the user's source, between reading a clock and taking the difference; never runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.changes import Change, before
from inspector.explain.program import Program, TimedRegion
from inspector.explain.rule import Rule, Stage
from inspector.model.explain import Evidence, Finding
from inspector.units import duration, plural


def find(case: Case) -> Iterable[Finding]:
    for program in case.programs:
        regions = [region for region in program.regions if region.calls_compiled]
        first = [region for region in regions if region.includes_first_call and not region.robust]
        data = [
            region for region in regions if region.data_lines or region.transfer_lines or region.compile_lines
        ]
        if first:
            yield _first_call(case, program, first[0])
        elif data:
            yield _data(program, data[0])
        elif case.gpu and any(not region.waits for region in regions):
            yield _not_waiting(program, next(region for region in regions if not region.waits))


def _first_call(case: Case, program: Program, region: TimedRegion) -> Finding:
    times = case.times
    how_much = (
        f": {duration(times.cold_ms)} of compiling are in its time" if times.cold_ms else ", and so compiling"
    )
    return Finding(
        rule="benchmark_artifact",
        severity="high",
        title=f"the timing at line {region.first} includes the first call{how_much}",
        graph=None,
        cost_ms=None,
        evidence=_lines(program, (region.first, *region.compile_lines, region.last)),
        advice=(
            "call the compiled function a few times before reading the clock, then take "
            "the median of many calls"
        ),
        how="measured" if times.cold_ms else "estimated",
        share=None,
        account="remark",
        change=_warm_up(program, region),
    )


def _warm_up(program: Program, region: TimedRegion) -> Change:
    """The first compiled call inside the clock, made once before it."""
    inside = range(region.first + 1, region.last + 1)
    names = [re.escape(name) for name in program.compiled_names]
    called = re.compile(rf"\b({'|'.join(names)})\s*\(") if names else None
    for number in inside:
        text = program.line(number)
        if called is not None and called.search(text) and "compile(" not in text:
            return before(program, region.first, f"{text}  # compiles, before the clock runs")
    return ()


def _not_waiting(program: Program, region: TimedRegion) -> Finding:
    return Finding(
        rule="benchmark_artifact",
        severity="high",
        title=f"the timing at line {region.first} ends before the GPU does: it measures launching alone",
        graph=None,
        cost_ms=None,
        evidence=_lines(program, (region.first, region.last)),
        advice="torch.cuda.synchronize() before each reading of the clock, or CUDA events",
        share=None,
        account="remark",
    )


def _data(program: Program, region: TimedRegion) -> Finding:
    lines = (*region.data_lines, *region.transfer_lines, *region.compile_lines)
    what = (
        "makes its data"
        if region.data_lines
        else "moves data between devices"
        if region.transfer_lines
        else "compiles"
    )
    return Finding(
        rule="benchmark_artifact",
        severity="high",
        title=(
            f"the timing at line {region.first} also {what} ({plural(len(lines), 'line')} inside the clock)"
        ),
        graph=None,
        cost_ms=None,
        evidence=_lines(program, (region.first, *lines)),
        advice="make the data, on its device, before reading the clock",
        share=None,
        account="remark",
    )


def _lines(program: Program, numbers: tuple[int, ...]) -> tuple[Evidence, ...]:
    return tuple(Evidence(program.path, number, program.line(number)) for number in dict.fromkeys(numbers))


RULE = Rule("benchmark_artifact", Stage.PROGRAM, find)
