"""The kernels are shorter than what it takes to get to them: guards, wrapper, launches.

Looks at: what the host took beside the kernels on both sides, where both were profiled, and what of that is
compiled code's; else one call's wall time less its kernels; without times, the size of what kernels do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from inspector.analysis.nothing import SWITCHES
from inspector.analysis.side_totals import AUTOGRAD, DISPATCH, GUARDS, OPERATORS, PYTHON, WRAPPER
from inspector.analysis.steady import MOST
from inspector.analysis.two_sides import host_ms as both_hosts_ms
from inspector.explain.case import Case
from inspector.explain.changes import Change, with_option
from inspector.explain.claims import on_part, on_whole
from inspector.explain.complex_numbers import AS_REAL, has_complex
from inspector.explain.cuda_graphs import fully_sharded, graphs_of_call, leave_out, unrecordable
from inspector.explain.doubts import profile_fits
from inspector.explain.estimate import FACTOR, FAR_OFF
from inspector.explain.failures import compile_failures
from inspector.explain.host_operators import slow_operators
from inspector.explain.ledger import guards_ms, host_part_ms
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence
from inspector.explain.transfers import waiting_ms
from inspector.model.account import HOST, Claim, Interval
from inspector.model.explain import Evidence, Finding, FindingHow, Severity, Trial
from inspector.model.two_sides import HostOperator, SideTotals, TwoSidedLedger
from inspector.units import duration, duration_range, percent, plural

COMPILED_CODE = (WRAPPER, GUARDS, DISPATCH)
"""What the host does in compiled code alone; the rest is operators, autograd and the program's Python."""
_MODE = 'mode="reduce-overhead" (CUDA graphs)'
_CUDA_GRAPHS = f"use {_MODE}, or a larger batch"
_SHARDED = f"; {_MODE} made a training with FSDP2 six times slower where it was tried"
"""72 ms a step became 445 (benchmarks/results/natural-blind-h100.txt)."""
_NO_SHORTER = f"; {_MODE} would not help: its own work for a call is no shorter"
_NEW_SIZES = f"; {_MODE} would record anew for each new size, and most calls have sizes of their own"
_ENTERED = 2
"""Graphs of a call, forward and backward: more are parts that were compiled apart."""
_CUTS = 3
"""Lines that are told of a call that is cut into parts."""
_MORE_WORK = "give each call more work (a larger batch, several steps in one compiled function)"


def find(case: Case) -> Iterable[Finding]:
    if not case.graphs or case.unread or case.in_eager:
        return
    if case.sides is not None and case.sides.joined.compiled is not None and profile_fits(case):
        yield from _profiled(case, case.walls, case.sides.joined.compiled)
        return
    usual = case.host_ms
    wall, kernels = case.wall_ms, case.kernels_ms
    # Where nobody timed a call either, both are guesses.
    timed = case.times.compiled_ms is not None
    measured = timed and case.kernels_measured
    if measured:
        gap = sure = host_part_ms(case)
    else:
        rest = wall - waiting_ms(case)[0]
        gap = min(rest - kernels, usual * FAR_OFF)
        # Of a call that was timed kernels that nobody timed may take as much more as an estimate is within.
        sure = min(rest - FACTOR * kernels, usual * FACTOR) if timed else gap
    # A part of it may be measured though the kernels are not: however slow the machine is, that much is sure.
    outside = guards_ms(case) or 0.0
    gap, sure = max(gap, outside), max(sure, outside)
    lost = _lost_to_host(case, sure, outside)
    share = gap / wall if wall else 0.0
    if lost is None and sure < MOST * wall:
        return
    severity: Severity = "high" if timed and case.times.outcome != "faster" else "medium"
    launches = _launches(case)
    how: FindingHow = "replayed" if measured else "estimated"
    advice, trial, saved = _advice(case, gap)
    claims: tuple[Claim, ...] = ()
    largest = max(case.graphs, key=lambda graph: len(graph.launches))
    work = f"guards, wrapper and launching {plural(launches, 'kernel')}"
    if lost is None or gap >= MOST * lost:
        title = f"{about(gap, how)} of {duration(wall)} per call ({percent(share)}) is {work}"
        if lost is not None and outside:
            title += f"; {duration(outside)} were measured in guards and dispatch, of which eager has none"
            # What is in the graphs besides kernels nobody measured.
            claims = (on_whole((min(outside, lost, saved), saved), "measured", "eager"),)
        # No more than there is: what a call takes besides, over eager, is the kernels'.
        saved = min(saved, gap)
    else:
        title = f"a call takes {duration(lost)} more than in eager, about what {work} usually costs"
    change, compiled_at = _change(case, trial)
    yield Finding(
        rule="host_bound",
        severity=severity,
        title=title,
        graph=largest.name if len(case.graphs) == 1 else None,
        cost_ms=saved,
        evidence=(*compiled_at, *_evidence(case, how)),
        advice=advice,
        how="measured" if trial is not None and trial.environment else how,
        share=case.share(saved),
        change=change,
        trial=trial,
        claims=claims,
    )


def _profiled(case: Case, ledger: TwoSidedLedger | None, compiled: SideTotals) -> Iterable[Finding]:
    """Where the compiled side was profiled: what is no block's is the host's, and nothing needs to be
    supposed; `ledger` has what eager's took where that was profiled too."""
    wall, host, more, least, slower = case.wall_ms, host_part_ms(case), 0.0, 0.0, False
    if ledger is not None:
        eager, host = both_hosts_ms(ledger)
        more = host - eager
        # What of eager's call has no name, and more than of the compiled one, may have been its host too.
        nameless = [max(ms, 0.0) for ms in (ledger.unexplained_eager_ms, ledger.unexplained_compiled_ms)]
        least = max(more - max(nameless[0] - nameless[1], 0.0), 0.0)
        if ledger.unexplained_eager_ms < -case.noise_ms:
            # Operators took longer in its profile than the whole call: of its host nothing is known.
            least = 0.0
        slower = more > case.noise_ms
    elif case.times.outcome == "slower" and case.times.eager_ms is not None:
        # Eager's host took no longer than eager.
        more, least = wall - case.times.eager_ms, max(host - case.times.eager_ms, 0.0)
        slower = least >= MOST * more
    longest = slow_operators(case)
    own = dict(compiled.host)
    entering = _entering_ms(case, compiled)
    surely, launching = _launching_ms(compiled, host)
    advice, trial, saved = _what_helps(case, more if slower else 0.0, launching, entering)
    # Of less than most of a call CUDA graphs may take some away all the same, if nothing else is lost.
    graphs = trial is not None and trial.mode is not None and wall <= (case.times.eager_ms or wall)
    most = host - sum(item.ms for item in longest) >= MOST * wall
    if not slower and not most and not graphs and not entering:
        return
    ours = sorted(((own.get(name, 0.0), name) for name in COMPILED_CODE), reverse=True)
    parts = ", ".join(f"{name} {duration(ms)}" for ms, name in ours if ms > 0)
    said = f"the host takes {duration(host)} of {duration(wall)} per call ({percent(host / wall)})"
    against = ""
    if ledger is not None:
        against = f", {duration_range((least, more))} more than" if more > 0 else f", {duration(eager)}"
        against += " in eager"
    elif slower:
        against = f", at least {duration(least)} more than all of eager"
    change, compiled_at = _change(case, trial)
    by_graphs = trial is not None and trial.mode is not None
    sure = max(saved - (launching - surely) * by_graphs, 0.0) if most else entering / FACTOR
    yield Finding(
        rule="host_bound",
        severity=_severity(case, host, least if slower else None, entering),
        title=f"{said}{against}"
        + (f"; of compiled code, in profiled calls: {parts}" if parts else "")
        + "".join(f"; {duration(item.ms)} in {item.name} itself, {_each(item)}" for item in longest[:1]),
        graph=case.graphs[0].name if len(case.graphs) == 1 else None,
        cost_ms=saved or None,
        evidence=(*compiled_at, *_evidence(case, "measured"), *(_cuts(case) if entering else ())),
        advice=advice,
        how="measured",
        share=case.share(saved) if saved else None,
        change=change,
        trial=trial,
        claims=tuple(_claims(saved, (least, more) if slower else None, ledger is not None, sure)),
    )


def _each(operator: HostOperator) -> str:
    return f"{plural(round(operator.calls), 'time')} {duration(operator.ms / operator.calls)}"


def _severity(case: Case, host: float, more: float | None, entering: float) -> Severity:
    """By what the host surely takes more where a call is slower than in eager, or to enter graphs one by one;
    else that compiled code takes time of the host is its price."""
    if more is not None and case.times.outcome == "slower":
        return severity_of(case.share(more))
    if host >= MOST * case.wall_ms:
        return "medium"
    return severity_of(case.share(entering / FACTOR)) if entering else "low"


def _claims(saved: float, more: Interval | None, both: bool, sure: float) -> Iterable[Claim]:
    """What the host takes more than in eager, of the whole call where eager's host was not seen; and what is
    saved beyond that, of which no more than `sure` is: else the device may be behind."""
    if more is not None:
        yield on_part(HOST, more, "profiled", "eager") if both else on_whole(more, "profiled", "eager")
    beyond = saved - (more[1] if more is not None else 0.0)
    if beyond > 0:
        yield on_part(HOST, (min(sure, beyond), beyond), "profiled", "least")


def _entering_ms(case: Case, compiled: SideTotals) -> float:
    """What the host takes on a CPU to enter the compiled graphs of a call one by one, beyond a forward and a
    backward one, at the pace of calls without a profiler: guards, and dispatch. 0 for what no runs show."""
    runs = sum(graph.runs for graph in case.graphs)
    if case.gpu or round(runs) <= _ENTERED or not compiled.wall_ms:
        return 0.0
    own = dict(compiled.host)
    whole = own.get(GUARDS, 0.0) + own.get(DISPATCH, 0.0)
    beyond = whole * (1 - _ENTERED / runs) * min(1.0, case.wall_ms / compiled.wall_ms)
    return beyond if beyond >= case.noise_ms else 0.0


def _launching_ms(compiled: SideTotals, host: float) -> Interval:
    """What CUDA graphs take away of the `host`'s time of a call: what wrappers take themselves, and with it
    what the operators do that they call; at the pace of calls without a profiler, which makes both longer."""
    own = dict(compiled.host)
    called = sum(own.get(name, 0.0) for name in (OPERATORS, AUTOGRAD, PYTHON)) - compiled.outside_ms
    wrapper = own.get(WRAPPER, 0.0)
    profiled = sum(own.values())
    pace = min(host / profiled, 1.0) if profiled else 1.0
    return min(wrapper * pace, host), min((wrapper + max(called, 0.0)) * pace, host)


def _what_helps(
    case: Case, more: float, launching: float, entering: float
) -> tuple[str, Trial | None, float]:
    """(what to do, how to try it, what that is about). CUDA graphs take away what `launching` took."""
    runs = max(sum(graph.runs for graph in case.graphs), 1.0)
    advice, trial, saved = _cuda_graphs(case, launching, max(case.noise_ms, MOST * more))
    one_by_one = _one_by_one(case)
    if saved is not None:
        return ", or ".join([*one_by_one, advice]), trial, max(saved, more)
    ways, remark = [_MORE_WORK], advice
    if round(runs) > _ENTERED:
        ways.insert(0, f"compile larger parts: a call enters {round(runs)} compiled graphs, one by one")
    ways[:0] = one_by_one
    slower = case.times.outcome == "slower"
    if slower and more:
        ways.append("leave it eager")
    trial = Trial(environment=((SWITCHES[0], "1"),)) if slower and more else None
    return ", or ".join(ways) + remark, trial, max(more, entering)


def _one_by_one(case: Case) -> list[str]:
    """What to do where most launches are operators that run as in eager."""
    left = case.left_to_aten()
    if not left or sum(item.calls for item in left.values()) < MOST * _launches(case):
        return []
    most = max(left, key=lambda name: left[name].calls)
    numbers = any(has_complex(graph.artifacts.fx_nodes) for graph in case.graphs)
    return [AS_REAL if numbers else f"write {most} with operators that Inductor has code for"]


def _cuda_graphs(case: Case, most: float, least: float) -> tuple[str, Trial | None, float | None]:
    """(how to get them, the setting to try, what they save) where that is `least` or more: one launch of all
    takes `most` away; else (a remark on why not, None, None)."""
    if fully_sharded(case):
        return _SHARDED, None, None
    if not case.gpu or any(graph.cuda_graphs for graph in case.graphs):
        return "", None, None
    if case.times.new_sizes is not None and case.times.new_sizes.most:
        return _NEW_SIZES, None, None
    waiting = unrecordable(case)
    line = leave_out(case, waiting) if waiting else None
    if waiting and not line:
        # torch can't cut around what waits.
        return _unrecordable(waiting), None, None
    saved = most - case.costs.cuda_graph_ms * graphs_of_call(case, waiting)
    if saved < least:
        return _NO_SHORTER if saved < case.noise_ms else "", None, None
    if line:
        why = f"which leaves out {' and '.join(waiting)}, in which the host waits for the device"
        return f"use {_MODE} with {line}, {why}", None, saved
    handed_on = next((at for program in case.programs if (at := program.hands_on())), None)
    if handed_on:
        # A graph's results lie where its next replay writes.
        return f"use {_MODE} with clones of what line {handed_on} hands to the next call", None, saved
    return _CUDA_GRAPHS, Trial(mode="reduce-overhead"), saved


def _change(case: Case, trial: Trial | None) -> tuple[Change, tuple[Evidence, ...]]:
    """The mode where the program compiles, and that line; nothing where it does so at several places."""
    calls = [(program, call.line) for program in case.programs for call in program.compile_calls]
    if trial is None or trial.mode is None or len(calls) != 1:
        return (), ()
    ((program, line),) = calls
    change = with_option(program, line, f'mode="{trial.mode}"')
    return change, (program.evidence(line),) if change else ()


def _unrecordable(operators: Sequence[str]) -> str:
    return (
        f"; no CUDA graph can be recorded with {' and '.join(operators)}: there the host waits for the device"
    )


def _launches(case: Case) -> int:
    """Launches of one steady call."""
    return round(sum(len(graph.launches) * graph.runs for graph in case.graphs))


def _evidence(case: Case, how: FindingHow) -> tuple[Evidence, ...]:
    largest = max(case.graphs, key=lambda graph: len(graph.launches))
    if not largest.launches:
        return (Evidence(largest.folder, None, "nothing to launch"),)
    # Of kernels that run elsewhere, or were not timed, no time is known.
    took = f", {about(case.kernels_ms, how)} in all" if case.kernels_ms > 0 else ""
    launched = f"{plural(_launches(case), 'kernel')} launched a call{took}"
    if left := round(sum(item.calls for item in case.left_to_aten().values())):
        launched += f"; {left:,} of them operators that run as in eager"
    return (largest.launch_evidence(largest.launches[0], launched),)


def _cuts(case: Case) -> tuple[Evidence, ...]:
    """The lines that most often end a graph, where a call enters several: breaks, and frames given up."""
    given_up = [(item.failure.place or item.place, item.failure.error) for item in compile_failures(case)]
    broken = [(item.location, item.headline) for item in case.facts.graph_breaks]
    often = [cut for cut, _ in Counter(cut for cut in broken if cut[0] is not None).most_common(_CUTS)]
    cuts = {str(place): (place, why) for place, why in (*often, *given_up) if place is not None}
    shown = list(cuts.values())[:_CUTS]
    return tuple(source_evidence(case, place, f"ends a graph: {why}") for place, why in shown)


def _lost_to_host(case: Case, sure: float, outside: float) -> float | None:
    """What a call takes longer than in eager, where the host's side is most of that; else None. Eager's host
    took no longer than eager: what compiled code's surely takes more than that was lost there, and so were
    guards and dispatch (`outside`), which eager has none of.

    So was what is no more than guards and dispatch usually take, which eager has none of, whatever the split
    of a few microseconds between kernels and wrapper came out as.
    """
    times = case.times
    if times.outcome != "slower" or times.compiled_ms is None or times.eager_ms is None:
        return None
    lost = times.compiled_ms - times.eager_ms
    usual = sum(graph.runs * case.costs.graph_ms for graph in case.graphs)
    surely = max(sure - times.eager_ms, outside)
    return lost if surely >= MOST * lost or lost <= FACTOR * usual else None


def _advice(case: Case, gap: float) -> tuple[str, Trial | None, float]:
    """(what to do, how to try it, what it would save)."""
    recorded = [
        graph.replay.cudagraph.median_ms for graph in case.graphs if graph.replay and graph.replay.cudagraph
    ]
    most = case.wall_ms - (sum(recorded) or case.kernels_ms)
    if case.sides is not None and case.sides.joined.compiled is not None:
        most = _launching_ms(case.sides.joined.compiled, most)[1]
    advice, trial, saved = _cuda_graphs(case, most, case.noise_ms)
    if saved is not None:
        return advice, trial, saved
    times = case.times
    lost = (times.compiled_ms or 0.0) - (times.eager_ms or math.inf)
    return (
        f"{_MORE_WORK}, or leave it eager{advice}",
        Trial(environment=((SWITCHES[0], "1"),)) if lost > 0 else None,
        lost if lost > 0 else gap,
    )


RULE = Rule("host_bound", Stage.BOUND, find, place_only=True)
