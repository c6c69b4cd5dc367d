"""Calls without torch: whether compiling paid, why nothing was compiled, lines of the record read back."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from words import texts

from inspector.analysis.calls import CallPayOff, PayOff, compiled_more, pay_off
from inspector.analysis.nothing import Evidence, all_in_eager, nothing_compiled, why_nothing
from inspector.analysis.steady import OTHERS, RUN_TO_RUN, first_and_later
from inspector.capture import baseline, profiles
from inspector.capture.baseline import variant_environment
from inspector.capture.child import ChildResult
from inspector.capture.environment import CaptureOptions
from inspector.capture.profiles import plan_calls
from inspector.capture.recorder import calls as recorder_calls
from inspector.capture.recorder import events as recorder_events
from inspector.capture.recorder import graph_runs
from inspector.capture.recorder import journal as recorder_journal
from inspector.capture.recorder.between import Between
from inspector.capture.recorder.graph_runs import Sizes
from inspector.capture.recorder.guard import Guards
from inspector.capture.recorder.journal import Journal
from inspector.capture.recorder.sink import Sink
from inspector.explain.times import measured_times
from inspector.gather import trace_report
from inspector.model.calls import (
    BASELINE_VARIANTS,
    CompiledCallable,
    Event,
    ProcessCalls,
    Variant,
    VariantRun,
)
from inspector.model.logs import GraphBreak
from inspector.model.run import Manifest, RunFacts
from inspector.model.source import SourceLocation
from inspector.present.calls import calls_lines, event_text, verdict_lines
from inspector.readers.anew import made_anew
from inspector.readers.record import parse_record
from inspector.readers.run import Run
from inspector.units import duration

HERE = SourceLocation("/u/model.py", 12)


def made(
    steady: list[float], cold: tuple[float, ...] = (), name: str = "f", setup: float = 0.0, **fields: Any
) -> CompiledCallable:
    times: dict[str, Any] = {
        "location": HERE, "order": 0, "mode": None, "backend": "inductor",
        "calls": len(steady) + len(cold), "first_ms": cold[0] if cold else None, "cold_ms": cold,
        "cold_index": tuple(range(len(cold))), "steady_ms": tuple(steady),
        "total_ms": sum(steady) + sum(cold), "setup_ms": setup,
    }  # fmt: skip
    return CompiledCallable(name=name, **{**times, **fields})


def ran(variant: Variant, *callables: CompiledCallable, rank: int | None = 0) -> VariantRun:
    return VariantRun(variant, 0, 1.0, (ProcessCalls(1, rank, callables),))


def only(*variants: VariantRun) -> CallPayOff:
    (item,) = pay_off(variants).callables
    return item


SPREAD = [0.99, 1.0, 1.01, 1.0, 0.99, 1.01, 1.0]


def times(median: float) -> list[float]:
    return [median * factor for factor in SPREAD]


# -- calls of several sizes


def sized(*groups: tuple[str, float, int]) -> CompiledCallable:
    """Calls in turns: of each size its name, a call's time and how many there are."""
    order = [name for turn in range(max(n for *_, n in groups)) for name, _, n in groups if turn < n]
    spread = {name: [ms * SPREAD[turn % len(SPREAD)] for turn in range(n)] for name, ms, n in groups}
    names = [name for name, *_ in groups]
    return made(
        [spread[name].pop(0) for name in order],
        (50.0,),
        sizes=tuple(("eval", name) for name in names),
        steady_sizes=tuple(names.index(name) for name in order),
    )


def compared(compiled: CompiledCallable, eager: CompiledCallable) -> CallPayOff:
    return only(ran("compiled", compiled), ran("eager", eager))


def test_calls_of_sizes_that_take_different_times_are_told_apart() -> None:
    item = compared(sized(("1x512", 1.0, 7), ("8x512", 9.0, 7)), sized(("1x512", 2.0, 7), ("8x512", 2.0, 7)))
    small, large = item.groups
    assert (small.sizes, small.outcome, small.compiled.count) == (("1x512",), "faster", 7)
    assert (large.sizes, large.outcome) == (("8x512",), "slower")
    assert large.eager is not None and large.compiled.median_ms / large.eager.median_ms == pytest.approx(4.5)
    # A call is the mean of them, not a median that is one or the other.
    assert item.compiled is not None and item.compiled.median_ms == pytest.approx(5.0)
    assert item.outcome == "slower"


def test_sizes_whose_times_do_not_differ_are_one_group() -> None:
    compiled = sized(("1x500", 2.0, 7), ("1x512", 2.05, 7))
    (group,) = compared(compiled, sized(("1x500", 4.0, 7), ("1x512", 4.1, 7))).groups
    assert (group.sizes, len(group.alike), group.compiled.count) == ((), 2, 14)
    # What only eager does differently is told apart, too.
    assert len(compared(compiled, sized(("1x500", 4.0, 7), ("1x512", 1.0, 7))).groups) == 2


def test_explain_and_summary_compare_the_same_calls() -> None:
    """Of a generation with more calls of one size in eager explain said 1.52x beside summary's 1.45x."""
    compiled = ran("compiled", sized(("4x1", 1.0, 20), ("4x32", 5.0, 4)))
    eager = ran("eager", sized(("4x1", 2.0, 20), ("4x32", 9.0, 12)))
    item = only(compiled, eager)
    run = SimpleNamespace(variants=(ran("captured", made([3.0])), compiled, eager), records=(), manifest=None)
    times = measured_times(cast(Run, run))
    assert item.compiled is not None and item.eager is not None and len(item.groups) == 2
    assert (times.compiled_ms, times.eager_ms) == (item.compiled.median_ms, item.eager.median_ms)
    told = [line.text for line in verdict_lines(pay_off((compiled, eager)))]
    assert "means over calls of several sizes" in told[0]


def test_sizes_of_two_calls_are_those_of_others() -> None:
    rare = [(f"1x{size}", 5.0 + size, 2) for size in range(4)]
    groups = only(ran("compiled", sized(("1x512", 1.0, 9), *rare))).groups
    assert [(group.sizes, group.compiled.count) for group in groups] == [(("1x512",), 9), (OTHERS, 8)]


def test_a_profile_is_of_calls_that_are_the_mean_of_all() -> None:
    """Twelve calls of 1 ms and four of 9 ms come one after the other: of four in a row one of the latter."""
    names = [0] * 12 + [1] * 4
    took = [(1.0, 9.0)[name] for name in names]
    plan = plan_calls(made(took, (50.0,), sizes=(("a",), ("b",)), steady_sizes=tuple(names)))
    assert plan is not None and plan.calls == 4
    # Its calls count from the one that compiled.
    assert sum(took[plan.first : plan.first + plan.calls]) / plan.calls == 3.0
    # A whole round of the program's loop is the mean of all by itself.
    whole = plan_calls(made(took, (50.0,), sizes=(("a",), ("b",)), steady_sizes=tuple(names)), 8)
    assert whole is not None and whole.calls == 8


def test_a_profile_is_of_calls_whose_sizes_came_before_where_those_that_come_first_are_slow() -> None:
    """Decoding twice over the same lengths, each of which is planned for once."""
    names = [0, 1, 2, 3, 4, 5, 6, 7] * 2
    took = [50.0] * 8 + [3.0] * 8
    sizes = tuple((f"8x{length}",) for length in range(8))
    plan = plan_calls(made(took, (900.0,), sizes=sizes, steady_sizes=tuple(names)))
    # The first steady call is the second.
    assert plan is not None and (plan.first, plan.calls) == (9, 5)
    alike = plan_calls(made([3.0] * 16, (900.0,), sizes=sizes, steady_sizes=tuple(names)))
    assert alike is not None and alike.first == 5


def test_a_profile_is_of_calls_that_take_what_calls_usually_take() -> None:
    """An epidemic's steps, which take a third of the time before it spreads."""
    took = [4.0] * 60 + [12.0] * 200
    plan = plan_calls(made(took, (50.0,)))
    # Its calls count from the one that compiled; half of those before are short.
    assert plan is not None and (plan.first, plan.calls) == (59, 5)
    assert sorted(took[plan.first - 1 :][: plan.calls])[2] == 12.0
    even = plan_calls(made([*took[60:], 3.0], (50.0,)))
    assert even is not None and even.first == 17
    rounds = plan_calls(made(took, (50.0,)), 4)
    assert rounds is not None and rounds.calls == 4 and (rounds.first + 1) % 4 == 0 and rounds.first > 55
    # Of a long run the newest calls are kept.
    long = replace(made(took, (50.0,)), calls=5000)
    late = plan_calls(long)
    assert late is not None and 4740 + 57 <= late.first <= 4740 + 60


def test_a_profile_is_of_a_training_that_an_evaluation_behind_it_compiles_once_more() -> None:
    names, took = [0] * 60 + [1] * 3, [20.0] * 60 + [5.0] * 3
    sizes: Any = (("training", "24x32"), ("24x32",))
    trained = made(took, (900.0, 400.0), sizes=sizes, steady_sizes=tuple(names), cold_index=(0, 61))
    plan, alone = plan_calls(trained), plan_calls(made(took[:60], (900.0,)))
    assert plan == alone and plan is not None and plan.first + plan.calls < 60
    # Of many calls the newest are known.
    newest = replace(trained, steady_ms=trained.steady_ms[-20:], steady_sizes=trained.steady_sizes[-20:])
    of_those = plan_calls(newest)
    assert of_those is not None and 40 < of_those.first < 60 - of_those.calls
    longer = replace(trained, calls=5000, cold_index=(0, 3000))
    first = plan_calls(longer)
    assert first is not None and first.first + first.calls < 3000, "of which no times are known"
    later = plan_calls(replace(trained, cold_index=(0, 20)))
    assert later is not None and later.first > 20


# -- whether it paid


def test_faster_with_the_number_of_calls_after_which_it_pays() -> None:
    item = only(
        ran("captured", made(times(3.0), (900.0,))),
        ran("compiled", made(times(2.0), (502.0, 102.0), setup=50.0)),
        ran("eager", made(times(5.0), (35.0,), setup=20.0)),
    )
    assert (item.outcome, item.measured_in) == ("faster", "compiled")
    assert item.ratio == pytest.approx(2.5)
    # 50 + 500 + 100 for compiled, 20 + 30 for eager, whose first call is slow as well.
    assert item.cost_ms == pytest.approx(600)
    assert item.break_even == 200
    # Both have taken as long by then.
    assert item.cost_ms is not None and item.cost_ms + 200 * 2.0 == pytest.approx(200 * 5.0)


def test_two_eager_runs_are_not_compared_where_nothing_was_compiled() -> None:
    variants = [ran("compiled", made(times(2.0), (52.0,))), ran("eager", made(times(31.0), (31.0,)))]
    assert pay_off(variants).outcome == "faster"
    result = pay_off(variants, nothing_compiled=True)
    assert (result.outcome, result.ratio, result.break_even_runs) == ("unknown", None, None)
    assert (result.callables[0].ratio, result.callables[0].break_even) == (None, None)
    assert texts(verdict_lines(result)) == [
        "nothing was compiled, so both runs are eager: what they differ by is the machine's"
    ]
    kinds = {"dynamo_start": 1}
    facts = RunFacts("r", "capture", event_kinds=kinds)
    assert all_in_eager(facts, 0) and not all_in_eager(facts, 1)
    assert not all_in_eager(replace(facts, event_kinds={**kinds, "dynamo_output_graph": 1}), 0)
    assert not all_in_eager(replace(facts, cache_events={"fx_graph_cache_hit": 1}), 0), "a cached graph ran"


def test_a_notebooks_cell_is_the_same_in_another_process() -> None:
    cells = [SourceLocation(f"/tmp/ipykernel_{pid}/630323241.py", 4) for pid in (4711, 4832)]
    ours = replace(made(times(2.0), (52.0,)), location=cells[0])
    theirs = replace(made(times(31.0), (31.0,)), location=cells[1])
    assert only(ran("compiled", ours), ran("eager", theirs)).outcome == "faster"


def test_slower_never_pays_and_the_sentence_has_both_times() -> None:
    variants = (ran("compiled", made(times(0.0345), (30.0,))), ran("eager", made(times(0.0152), (0.1,))))
    item = only(*variants)
    assert (item.outcome, item.break_even) == ("slower", None)
    (line,) = texts(verdict_lines(pay_off(variants)))
    assert line.startswith(
        "compiled is 2.27x slower than eager: 34.5 us against 15.2 us per call of f (median of 7)"
    )
    assert line.endswith("is never won back")


@pytest.mark.parametrize("factor", [1.0, 1 + RUN_TO_RUN / 2, 1 - RUN_TO_RUN / 2])
def test_a_small_difference_is_called_noise(factor: float) -> None:
    variants = (ran("compiled", made(times(1.0), (9.0,))), ran("eager", made(times(factor), (1.0,))))
    item = only(*variants)
    assert (item.outcome, item.break_even) == ("same", None)
    assert "within noise" in texts(verdict_lines(pay_off(variants)))[0]


def test_a_large_difference_of_scattered_times_is_noise_too() -> None:
    scattered = [0.1, 4.0, 0.2, 3.8, 2.0]
    item = only(ran("compiled", made(scattered)), ran("eager", made([value * 1.3 for value in scattered])))
    assert item.outcome == "same"


def test_two_calls_say_nothing() -> None:
    item = only(ran("compiled", made([1.0, 1.0], (9.0,))), ran("eager", made([5.0] * 9)))
    assert (item.outcome, item.break_even) == ("unknown", None)
    assert item.ratio == 5.0


def test_a_callable_whose_every_call_was_cold_has_no_steady_time() -> None:
    variants = (ran("captured", made([], (9.0, 8.0))),)
    item = only(*variants)
    assert (item.compiled, item.cost_ms, item.outcome) == (None, None, "unknown")
    assert "every call" in texts(verdict_lines(pay_off(variants)))[0]


def test_without_a_baseline_the_captured_calls_are_shown_and_not_judged() -> None:
    result = pay_off([ran("captured", made(times(2.0), (52.0,)))])
    assert (result.outcome, result.baseline) == ("unknown", False)
    assert result.callables[0].cost_ms == pytest.approx(50)
    assert texts(verdict_lines(result)) == []
    assert "capture --baseline" in texts(calls_lines(result, 100))[-1]
    assert all(len(line) <= 80 for line in texts(calls_lines(result, 80)))


def test_what_a_second_run_contradicts_is_not_said() -> None:
    """The runs that are profiled are the same runs again, and most of their calls are not profiled."""

    def pair(*medians: float, calls: int = 24) -> PayOff:
        first = [
            ran(variant, made([ms, ms * 1.01] * (calls // 2), (50.0,)))
            for variant, ms in zip(BASELINE_VARIANTS, medians[:2], strict=True)
        ]
        again = [made([ms, ms * 1.01] * (calls // 2 - 3) + [3 * ms] * 6, (50.0,)) for ms in medians[2:]]
        return pay_off(
            [
                replace(run, profiled=(ProcessCalls(2, 0, (item,)),))
                for run, item in zip(first, again, strict=True)
            ]
        )

    against = pair(20.0, 28.0, 32.0, 24.0)
    assert (against.outcome, against.break_even_runs) == ("unknown", None)
    assert against.again == pytest.approx(0.75)
    assert [item.outcome for item in against.callables] == ["unknown"]
    assert texts(verdict_lines(against))[0].startswith(
        "compiled is 1.40x faster than eager, but 1.33x slower when run again: 20.1 ms against 28.1 ms"
    )
    # Nor is a difference that the second run does not have, or that only the second has.
    for medians, again in (((20.0, 28.0, 32.0, 32.0), 1.0), ((20.0, 20.0, 32.0, 40.0), 1.25)):
        told = pair(*medians, calls=48)
        assert (told.outcome, told.again) == ("unknown", pytest.approx(again))
    assert texts(verdict_lines(pair(20.0, 28.0, 32.0, 32.0)))[0].startswith(
        "compiled is 1.40x faster than eager, but as fast when run again"
    )
    # The same, what two runs differ by, or too few calls beside those that were profiled say nothing.
    for medians in ((20.0, 28.0, 32.0, 40.0), (20.0, 21.4, 32.0, 32.8), (28.0, 20.0, 40.0, 32.0)):
        told = pair(*medians)
        assert (told.outcome, told.again) == ("faster" if medians[0] < medians[1] else "slower", None)
    assert pair(20.0, 28.0, 32.0, 24.0, calls=12).outcome == "faster"


def test_callables_are_matched_by_name_and_place_not_by_order() -> None:
    other = made(times(9.0), name="g", order=0)
    result = pay_off(
        [
            ran("compiled", made(times(1.0), order=1), made(times(2.0), order=2)),
            ran("eager", other, made(times(3.0), order=5), made(times(4.0), order=6)),
        ]
    )
    assert [item.ratio for item in result.callables] == [pytest.approx(3.0), pytest.approx(2.0)]


def test_the_run_is_weighed_over_all_its_calls() -> None:
    forward = [made(times(1.0), (101.0,)), made(times(4.0))]
    backward = [made(times(median), (3.0,), "backward", kind="backward") for median in (3.0, 2.0)]
    result = pay_off([ran("compiled", forward[0], backward[0]), ran("eager", forward[1], backward[1])])
    assert [item.outcome for item in result.callables] == ["faster", "slower"]
    assert (result.compiled_ms, result.eager_ms) == (
        pytest.approx(8 * 1 + 8 * 3),
        pytest.approx(8 * 4 + 8 * 2),
    )
    assert (result.outcome, result.cost_ms) == ("faster", pytest.approx(100))
    assert result.break_even_runs == pytest.approx(100 / 16)
    # Both were called eight times: a step is one call of each, and 100 ms are won back at 2 ms a step.
    assert texts(verdict_lines(result))[0] == (
        "compiled is 1.50x faster than eager: 4.00 ms against 6.00 ms per step, one call each of 2 "
        "functions; compiling (100 ms) is won back after 50 steps"
    )


def test_functions_called_unequally_often_have_no_step() -> None:
    compiled = made(times(1.0), (101.0,)), made(times(3.0)[:4], name="g")
    eager = made(times(4.0)), made(times(2.0)[:4], name="g")
    (line,) = texts(verdict_lines(pay_off([ran("compiled", *compiled), ran("eager", *eager)])))
    assert "20.0 ms against 40.0 ms over the run's calls of 2 functions" in line
    assert line.endswith("is won back after 5 runs")


def test_what_few_calls_leave_open_decides_nothing_where_it_is_little() -> None:
    """288 calls of one function, five of another of which two were steady."""
    often = [made(times(2.4) * 30, name="f"), made(times(6.3) * 30, name="f")]
    for few, outcome in ((3.8, "faster"), (4000.0, "unknown")):
        seldom = [made([few, few], name="g"), made([few * 1.8, few * 1.8], name="g")]
        result = pay_off([ran("compiled", often[0], seldom[0]), ran("eager", often[1], seldom[1])])
        assert [item.outcome for item in result.callables] == ["faster", "unknown"]
        assert result.outcome == outcome
    alike = [made(times(2.4) * 30, name="f"), made([2.0, 2.0], name="g")]
    assert pay_off([ran("compiled", *alike), ran("eager", *alike)]).outcome == "same"


def test_what_is_compiled_more_often_with_full_caches_is_another_program() -> None:
    """A number's cosine in a guard: three graphs at first, eight and eager from then on in the next run."""

    def more(before: int, then: int, variant: Variant = "compiled") -> tuple[tuple[str, int, int], ...]:
        first, again = (made(times(1.0), (9.0,) * cold) for cold in (before, then))
        return compiled_more([replace(ran(variant, first), profiled=(ProcessCalls(2, 0, (again,)),))])

    assert more(3, 9) == (("f", 3, 9),)
    assert more(1, 4) == (("f", 1, 4),)
    assert more(3, 5) == more(1, 3) == more(0, 9) == more(3, 9, "eager") == ()
    assert compiled_more([ran("compiled", made(times(1.0), (9.0,)))]) == ()


def test_what_is_noise_of_every_function_is_noise_of_all() -> None:
    wide = [1.0, 3.0, 1.5, 2.5, 0.5, 3.5, 2.0]
    compiled = [made([ms * 1.5 for ms in wide], name=name) for name in "fghi"]
    eager = [made(wide, name=name) for name in "fghi"]
    result = pay_off([ran("compiled", *compiled), ran("eager", *eager)])
    assert {item.outcome for item in result.callables} == {"same"} and result.outcome == "same"


def test_ranks_are_kept_apart_and_counted_once() -> None:
    two = ProcessCalls(1, 0, (made(times(1.0)),)), ProcessCalls(2, 1, (made(times(2.0)),))
    eager = ProcessCalls(3, 0, (made(times(4.0)),)), ProcessCalls(4, 1, (made(times(4.0)),))
    result = pay_off([VariantRun("compiled", 0, 1.0, two), VariantRun("eager", 0, 1.0, eager)])
    assert [(item.rank, item.ratio) for item in result.callables] == [
        (0, pytest.approx(4)),
        (1, pytest.approx(2)),
    ]
    assert result.compiled_ms == pytest.approx(7.0)
    assert "rank 1 f" in "\n".join(texts(calls_lines(result, 120)))
    assert "1.00 ms against 4.00 ms per call of f" in texts(verdict_lines(result))[0]


def test_a_run_without_calls_is_unknown() -> None:
    result = pay_off([])
    assert (result.callables, result.outcome, texts(verdict_lines(result))) == ((), "unknown", [])


@pytest.mark.parametrize(
    ("time", "text"),
    [(0.0345, "34.5 us"), (0.0012, "1.20 us"), (0.99949, "999 us"), (12.31, "12.3 ms"), (27_400.0, "27.4 s")],
)
def test_times_in_the_unit_that_suits_them(time: float, text: str) -> None:
    assert duration(time) == text


def test_the_table_fits_a_narrow_screen() -> None:
    long = "a_function_with_quite_a_long_name_for_a_narrow_screen"
    variants = [ran("compiled", made(times(1.0), (9.0,), long)), ran("eager", made(times(2.0), (2.0,), long))]
    for width in (80, 160):
        lines = texts(calls_lines(pay_off(variants), width))
        assert all(len(line) <= width for line in lines)
        assert "2.00x" in lines[1] and "8 calls" in lines[1], lines


# -- why nothing was compiled


def process(*callables: CompiledCallable, events: tuple[Event, ...] = (), **fields: Any) -> ProcessCalls:
    return ProcessCalls(1, 0, callables, events, **fields)


ERROR = Event(
    "compile_error", "BackendCompilerFailed: backend='inductor' raised:\nno compiler\nmore", "f", HERE
)
OLD = Event("compile_error", "Found X which is too old to be supported by the triton GPU compiler", "f", HERE)
LOOP = Event("skipped_frame", "Unsupported Tensor.item()\n  Explanation: no", "f", HERE)
RAISED = Event("compile_error", "Observed exception", "f", HERE, raised=True)
CALLED, EAGER = made([1.0] * 3), made([1.0], backend="eager")


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence(switch="TORCHDYNAMO_DISABLE", cached=1), "TORCHDYNAMO_DISABLE=1 is set"),
        (Evidence(calls=(process(CALLED, disabled="TORCH_COMPILE_DISABLE"),)), "TORCH_COMPILE_DISABLE=1"),
        (Evidence(cached=2, fresh=False), "2 graphs came from the cache; capture without --no-fresh"),
        (Evidence(interrupted=True), "before the command was interrupted"),
        (
            Evidence(calls=(process(CALLED, events=(ERROR,)),)),
            "failed in f (model.py:12) and the code ran in eager, as errors are suppressed",
        ),
        (
            Evidence(calls=(process(CALLED, events=(ERROR,)),)),
            ": BackendCompilerFailed: backend='inductor' raised: no compiler",
        ),
        (Evidence(calls=(process(CALLED, events=(OLD,)),)), "Triton does not support this GPU"),
        (Evidence(calls=(process(EAGER, events=(RAISED,)),)), 'backend is "eager"'),
        (Evidence(exit_code=1, calls=(process(EAGER, events=(RAISED,)),)), "with exit code 1: Observed"),
        (Evidence(calls=(process(CALLED, events=(RAISED,)),)), "and the program went on: Observed"),
        (Evidence(exit_code=3), "before the command failed with exit code 3"),
        (Evidence(exit_code=3, made=1), "Dynamo made 1 graph, but the command failed"),
        (Evidence(calls=(process(EAGER),)), 'backend is "eager" (model.py:12)'),
        (Evidence(calls=(process(made([])),)), "was never called to its end: f (model.py:12)"),
        (Evidence(calls=(process(CALLED, events=(LOOP,)),)), "gave up f (model.py:12): Unsupported"),
        (Evidence(made=2), "Dynamo made 2 graphs, but Inductor compiled none"),
        (Evidence(frames=1), "looked at 1 function but found no tensor computation"),
        (Evidence(devices=("Tesla P100-PCIE-16GB",)), "Triton does not support Tesla P100"),
        (Evidence(devices=("NVIDIA H200",), watched=True), "never called torch.compile"),
        (Evidence(), "or the command ran in an interpreter"),
    ],
)  # fmt: skip
def test_the_reason_why_nothing_was_compiled(evidence: Evidence, said: str) -> None:
    assert said in why_nothing(evidence)


def test_a_run_with_graphs_or_still_running_has_no_reason() -> None:
    def facts(status: str) -> RunFacts:
        manifest = Manifest(("x",), status, None, 0.0, 0.0)
        return RunFacts("r", "capture", None, (), 1, (), (), manifest)

    assert nothing_compiled(facts("done"), 1) is None
    assert nothing_compiled(facts("running"), 0) is None
    assert nothing_compiled(facts("done"), 0) is not None


def test_a_frame_that_is_given_up_in_a_library_has_the_users_line() -> None:
    """As gpytorch pickles its arguments (linear_operator/utils/memoize.py) on the way from two functions."""
    library = "/usr/lib/python3.11/site-packages/linear_operator/utils/memoize.py"
    place = SourceLocation(library, 59, "g")

    def given_up(line: int, function: str) -> GraphBreak:
        frames = (SourceLocation("gp.py", line, "objective"), SourceLocation(library, 9, function), place)
        return GraphBreak(place, "", frames, None, False, 1, "")

    event = Event(
        "skipped_frame", "pickle", "torch_dynamo_resume_in___init___at_22", SourceLocation(library, 59)
    )
    once = [given_up(17, "log_prob"), given_up(30, "__init__")]
    assert event_text(event, once) == "runs in eager  rest of __init__ (gp.py:30, in memoize.py:59)  pickle"
    # From where it was, where two lines led there, is not known.
    twice = [*once, given_up(31, "__init__")]
    assert event_text(event, twice) == "runs in eager  rest of __init__ (memoize.py:59)  pickle"


def test_events_in_one_line() -> None:
    assert event_text(LOOP) == "runs in eager  f (model.py:12)  Unsupported Tensor.item()"
    assert event_text(Event("cudagraph_skip", "skipping cudagraphs due to cpu device", None, None, 4)) == (
        "no CUDA graph  skipping cudagraphs due to cpu device  (4 times)"
    )


# -- the environment of a variant


def test_a_variant_runs_without_debug_output_and_with_its_own_caches(tmp_path: Path) -> None:
    base = {"PATH": "/bin", "TORCH_LOGS": "+dynamo", "TORCH_COMPILE_DEBUG": "1", "PYTHONPATH": "mine"}
    asked = CaptureOptions(("p",), config=(("max_autotune", "true"),), env=(("TORCH_TRACE", "kept"),))
    full = variant_environment(base, tmp_path, tmp_path / "c", "compiled", asked)
    assert not {"TORCH_LOGS", "TORCH_COMPILE_DEBUG", "TORCHDYNAMO_DISABLE"} & set(full)
    assert full["TORCH_TRACE"] == "kept"
    assert full["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "c" / "inductor")
    assert full["TORCHINDUCTOR_MAX_AUTOTUNE"] == "1"
    assert full["PYTHONPATH"].endswith(f"{os.pathsep}mine")
    request = json.loads(full["INSPECTOR_BOOTSTRAP"])
    assert request["record"]["calls"] is True
    assert request["record"]["folder"] == str(tmp_path / "record")
    eager = variant_environment(base, tmp_path, None, "eager", CaptureOptions(("p",)))
    assert eager["TORCHDYNAMO_DISABLE"] == "1"
    assert "TORCHINDUCTOR_CACHE_DIR" not in eager


def test_what_is_profiled_finds_the_kernels_that_were_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches: dict[str, str | None] = {}

    def ran(argv: Any, environment: Any, folder: Path, *rest: Any, **more: Any) -> ChildResult:
        caches[folder.relative_to(tmp_path).as_posix()] = environment.get("TORCHINDUCTOR_CACHE_DIR")
        return ChildResult(0, False, 1.0)

    for module in (baseline, profiles):
        monkeypatch.setattr(module, "run_apart", ran)
    plan = (profiles.ProfilePlan(4, 3, 2), "")
    monkeypatch.setattr(baseline, "plan_profile", lambda run: plan)
    screen: Any = SimpleNamespace(say=lambda text: None)
    options = CaptureOptions(("p",))
    outcome = baseline.run_baseline(["p"], tmp_path, {}, screen, options, live=False)
    profiled: Any = outcome.ran["compiled"]["profile"]
    assert profiled["order"] == 4, "which callable's calls"
    assert caches["profile/compiled"] == caches["baseline/compiled"]
    assert caches["profile/eager"] == caches["baseline/eager"] != caches["baseline/compiled"]
    assert not any(Path(str(folder)).exists() for folder in caches.values())
    fresh = replace(options, fresh=False)
    (tmp_path / "user").mkdir()
    baseline.run_baseline(["p"], tmp_path / "user", {}, screen, fresh, live=False)
    assert caches["user/profile/compiled"] is None


def test_kernels_in_cpp_are_profiled_as_operators_where_a_run_has_them(tmp_path: Path) -> None:
    asked = {"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}
    assert profiles.kernel_profile(tmp_path) == asked
    code = tmp_path / "torch_compile_debug" / "model__0" / "output_code.py"
    code.parent.mkdir(parents=True)
    code.write_text("k = async_compile.triton('k', '''...''')\n")
    assert profiles.kernel_profile(tmp_path) == {}
    (tmp_path / "output_code.py").write_text("k = async_compile.cpp_pybinding(['float*'], '''...''')\n")
    assert profiles.kernel_profile(tmp_path) == asked


# -- the record


HEAD = '{"kind": "process", "schema": "inspector.record/1", "pid": 4, "rank": 1, "torch": "2.13.0"}'


def line(count: int, **changes: Any) -> str:
    callables = [
        {"name": "f", "location": "/x:y/m.py:3", "order": 0, "kind": "call", "mode": None,
         "backend": "inductor", "calls": count, "first_ms": 9.5, "cold_ms": [9.5], "cold_index": [0],
         "steady_ms": [1.0] * (count - 1), "total_ms": 8.5 + count, "setup_ms": 2.0, "device": "cpu",
         "grad": False, "training": None}
    ]  # fmt: skip
    events = [
        {"kind": "recompile", "reason": "n == 2", "frame": "f", "location": "/x:y/m.py:3", "count": 2},
        {"kind": "novelty", "reason": "of a newer recorder", "frame": None, "location": None},
    ]
    data = {"kind": "calls", "callables": callables, "events": events, "counters": {"stats.unique_graphs": 2},
            "disabled": None, "hooks": ["a", "b"], "missing": ["c"]}  # fmt: skip
    return json.dumps({**data, **changes})


def test_the_newest_line_of_calls_counts() -> None:
    record = parse_record(f"{HEAD}\n{line(2)}\n{line(5)}\n{line(7)[:40]}", "record/rank1.jsonl")
    assert [problem.line for problem in record.problems] == [4]
    assert record.calls is not None
    (item,) = record.calls.callables
    assert (item.calls, len(item.steady_ms), item.setup_ms) == (5, 4, 2.0)
    assert item.location == SourceLocation("/x:y/m.py", 3)
    (event,) = record.calls.events
    assert (event.kind, event.count, event.raised) == ("recompile", 2, False)
    assert record.calls.counter("stats.unique_graphs") == 2
    assert (record.hooks, record.missing) == (("a", "b"), ("c",))
    assert (record.calls.rank, record.calls.pid) == (1, 4)


@pytest.mark.parametrize(
    "changes", [{"callables": [{"name": "f"}]}, {"callables": 3}, {"counters": {"a": "b"}}]
)
def test_a_damaged_line_of_calls_is_a_problem(changes: dict[str, Any]) -> None:
    record = parse_record(f"{HEAD}\n{line(2, **changes)}\n", "r")
    assert record.calls is None
    assert len(record.problems) == 1


def test_variants_of_a_run_on_disk(tmp_path: Path) -> None:
    manifest = {
        "schema": "inspector.run/1", "command": ["x"], "status": "done", "exit_code": 0,
        "started": 1, "seconds": 9.0,
        "baseline": {"compiled": {"exit_code": 3, "seconds": 2.5}, "eager": "odd"},
    }  # fmt: skip
    (tmp_path / "inspector.json").write_text(json.dumps(manifest))
    for folder in ("record", "baseline/compiled/record"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "rank1.jsonl").write_text(f"{HEAD}\n{line(4)}\n")
    (tmp_path / "baseline/compiled/record/rank2.jsonl").write_text("nonsense\n")
    captured, compiled = Run.open(tmp_path).variants
    assert (captured.variant, captured.wall_s, len(captured.processes)) == ("captured", 9.0, 1)
    assert (compiled.variant, compiled.exit_code, compiled.wall_s) == ("compiled", 3, 2.5)
    assert [problem.path for problem in compiled.problems] == ["baseline/compiled/record/rank2.jsonl"]


# -- the journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    sink = Sink(str(tmp_path / "record"), str(tmp_path / "log"))
    return recorder_journal.journal_of(Guards(sink.log), sink)


def written(tmp_path: Path) -> list[dict[str, Any]]:
    lines = (tmp_path / "record" / "rank0.jsonl").read_text().splitlines()
    return [data for data in map(json.loads, lines) if data["kind"] == "calls"]


def test_what_passes_between_steady_calls_is_known_from_the_last_that_compiled(
    journal: Journal, tmp_path: Path
) -> None:
    entry = journal.entry("f", "m.py:3")
    steady = [(60, 62), (70, 73), (90, 95), (100, 101), (109, 110), (1000, 1001), (1008, 1009)]
    for number, (opened, closed) in enumerate([(0, 9), (10, 50), *steady]):
        cold = number < 2
        entry.add(1.0, cold)
        journal.passed(opened * 1_000_000, closed * 1_000_000, cold)
    journal.write()
    assert written(tmp_path)[-1]["steady_span"] == {
        # What passed once, as 890 ms, is left out with the next longest, 17 and 10.
        "calls": 7, "span_ms": 959.0 - 890 - 17 - 10, "inside_ms": 14.0,
        "looks": 0, "lines": [],
    }  # fmt: skip
    record = parse_record((tmp_path / "record" / "rank0.jsonl").read_text(), "rank0.jsonl")
    assert record.calls is not None and record.calls.steady_span is not None
    assert record.calls.steady_span.outside == pytest.approx(28 / 42)


def test_lines_between_steady_calls_are_those_of_the_same_stretch(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What passes once, in the longest of the gaps, is not what a program does between its calls."""
    entry = journal.entry("f", "m.py:3")
    seen = iter(["m.py:1", "m.py:2", *["m.py:7", "m.py:8"] * 4, "m.py:9"])
    monkeypatch.setattr(journal.between, "taken", lambda: {next(seen): 1})
    monkeypatch.setattr(journal.between, "_started", True)
    for number in range(11):
        opened = (number * 100 + 1000 * (number == 10)) * 1_000_000
        entry.add(1.0, number < 2)
        journal.passed(opened, opened + (10 + number) * 1_000_000, number < 2)
    journal.write()
    span = written(tmp_path)[-1]["steady_span"]
    # Nine gaps, of which the last and the two that are next, the first ones, are left out.
    assert span["looks"] == 6 and dict(span["lines"]) == {"m.py:7": 3, "m.py:8": 3}
    record = parse_record((tmp_path / "record" / "rank0.jsonl").read_text(), "rank0.jsonl")
    assert record.calls is not None and record.calls.steady_span is not None
    lines = record.calls.steady_span.lines
    assert {(place.path, place.line, looks) for place, looks in lines} == {("m.py", 7, 3), ("m.py", 8, 3)}


def test_a_program_is_looked_at_between_its_calls_alone() -> None:
    between = Between(Guards(lambda text: None))
    between.begins(steady=False)
    assert not between.taken(), "nothing is looked at before there are steady calls"
    between.begins(steady=True)
    line = 0
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        line = sys._getframe().f_lineno
    between.ends()
    seen = between.taken()
    assert sum(seen.values()) >= 5
    assert {place.rpartition(":")[0] for place in seen} == {__file__}
    assert {int(place.rpartition(":")[2]) for place in seen} <= {line, line - 1}
    time.sleep(0.1)
    assert not between.taken(), "none during a call"
    between.skip = lambda file: file == __file__
    assert between.look() == 0


def called_in_order(journal: Journal, tmp_path: Path, *order: int) -> list[CompiledCallable]:
    """What is read of callables of one line, called in that order; one that is called again takes longer."""
    entries = [journal.entry("step", "m.py:3") for _ in sorted(set(order))]
    for number in order:
        journal.note(entries[number])
        entries[number].add(1.0 + number, cold=False, sizes=("eval",))
    journal.write()
    (path,) = tmp_path.glob("record/*.jsonl")
    calls = parse_record(path.read_text(), str(path)).calls
    assert calls is not None and [item.span for item in calls.callables] == [
        (order.index(number), len(order) - 1 - order[::-1].index(number)) for number in sorted(set(order))
    ]
    return list(made_anew(calls).callables)


def test_what_is_compiled_anew_for_each_part_of_the_work_is_one_callable(
    journal: Journal, tmp_path: Path
) -> None:
    """A closure over a lattice, made for each of three: a call is one of them and not all three."""
    (item,) = called_in_order(journal, tmp_path, *[0] * 9, *[1] * 8, *[2] * 7)
    assert (item.calls, item.order, item.span, len(item.steady_ms)) == (24, 0, (0, 23), 21)
    assert item.cold_index == (0, 9, 17) and item.cold_ms == (1.0, 2.0, 3.0) and item.first_ms == 1.0
    assert item.total_ms == sum(item.steady_ms) + sum(item.cold_ms)
    groups = only(ran("compiled", item)).groups
    assert [(group.sizes, group.compiled.median_ms, group.compiled.count) for group in groups] == [
        (("no. 1 of 3",), 1.0, 8), (("no. 2 of 3",), 2.0, 7), (("no. 3 of 3",), 3.0, 6),
    ]  # fmt: skip


def test_layers_that_are_compiled_in_a_loop_stay_apart(journal: Journal, tmp_path: Path) -> None:
    items = called_in_order(journal, tmp_path, *[0, 1] * 5)
    assert [(item.calls, item.order) for item in items] == [(5, 0), (5, 1)]


def test_whole_numbers_among_a_graphs_arguments_are_kept_as_their_mean() -> None:
    sizes = Sizes()
    for rows in (902, 3987, 3524):
        sizes.look(["a tensor", rows, True, 2.5, 96])
    assert sizes.as_json() == {"1": (902 + 3987 + 3524) / 3, "4": 96.0}
    runs = {
        "graph": "g", "process": "p", "runs": 3, "ms": [], "sizes": sizes.as_json(), "trained": 2,
        "span": [4, 19],
    }  # fmt: skip
    text = json.dumps({"kind": "calls", "callables": [], "graph_runs": [runs]})
    calls = parse_record(text, "rank0.jsonl").calls
    assert calls is not None and calls.graph_runs[0].sizes == (
        (1, pytest.approx(2804.33, abs=0.01)),
        (4, 96.0),
    )
    assert (calls.graph_runs[0].trained, calls.graph_runs[0].span) == (2, (4, 19))


def test_a_graph_has_the_first_and_the_last_call_that_it_ran_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_runs, "current_graph", lambda: {"graph": "model__0", "process": "run-1"})
    journal = SimpleNamespace(noted=0, state=lambda: 0)
    runs = graph_runs.GraphRuns(cast(Any, journal), cast(Any, SimpleNamespace(trains=True, backward=False)))
    graph = object()
    runs.made(graph)
    # A call is noted before what it runs.
    for journal.noted in (5, 6, 6, 20):
        runs.ran(graph, 1_000_000)
    (entry,) = runs.as_json()
    assert (entry["span"], entry["runs"], entry["trained"]) == ([4, 19], 4, 4)


def test_steady_cold_and_first_calls(journal: Journal, tmp_path: Path) -> None:
    entry = journal.entry("f", "m.py:3")
    for number, cold in enumerate([False, False, True, *[False] * 1200]):
        entry.add(float(number), cold)
    journal.event("recompile", " why ", "f", "m.py:3")
    journal.event("recompile", "why", "f", "m.py:3")
    journal.write()
    (data,) = written(tmp_path)
    (item,) = data["callables"]
    assert (item["calls"], item["first_ms"], item["cold_ms"], item["cold_index"]) == (
        1203,
        0.0,
        [0.0, 2.0],
        [0, 2],
    )
    assert len(item["steady_ms"]) == 1000 and item["steady_ms"][-1] == 1202.0
    assert item["total_ms"] == sum(range(1203))
    assert [event["count"] for event in data["events"]] == [2]


def test_thousands_of_callables_of_one_line_share_an_entry(journal: Journal) -> None:
    entries = [journal.entry("f", "m.py:3") for _ in range(recorder_journal.CALLABLE_LIMIT + 50)]
    assert len(journal.entries) == recorder_journal.CALLABLE_LIMIT
    assert entries[-1] is entries[recorder_journal.CALLABLE_LIMIT - 1]
    for number in range(recorder_journal.EVENT_LIMIT + 50):
        journal.event("recompile", str(number), None, None)
    assert len(journal._events) == recorder_journal.EVENT_LIMIT


def test_the_line_is_written_less_and_less_often(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.entry("f", None).add(1.0, True)
    for now in range(1, 200):
        monkeypatch.setattr(time, "monotonic", lambda now=now: float(now))
        journal.write_now_and_then()
    assert 4 <= len(written(tmp_path)) <= 7


def test_a_process_that_compiles_nothing_leaves_no_file(journal: Journal, tmp_path: Path) -> None:
    journal.write()
    assert not (tmp_path / "record").exists()


# -- waiting for the device


@pytest.mark.parametrize(
    ("initialized", "capturing", "waits"), [(False, False, False), (True, False, True), (True, True, False)]
)
def test_the_device_is_waited_for_where_it_is_used(
    initialized: bool, capturing: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = SimpleNamespace(
        is_initialized=lambda: initialized,
        is_current_stream_capturing=lambda: capturing,
        synchronize=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert (recorder_calls.synchronizer() is cuda.synchronize) == waits


class Net:
    def __call__(self) -> None: ...
    def encode(self) -> None: ...


def test_names_of_callables() -> None:
    def inner() -> None: ...

    net = Net()
    names = [recorder_calls.name_of(one) for one in (inner, net, net.encode, net.__call__, len, Net.encode)]
    assert names == ["inner", "Net", "Net.encode", "Net", "len", "Net.encode"]


def test_a_decorators_function_has_the_name_of_what_it_wraps(journal: Journal) -> None:
    def decorated(function: Any, *others: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, *others, **kwargs)

        return wrapper

    def step(x: int) -> int:
        return x

    def _compile(
        code: Any, globals: Any, locals: Any, builtins: Any, closure: Any, one_graph: Any
    ) -> None: ...

    watch = recorder_events.FrameWatch(journal, _compile)
    for function in (decorated(step), decorated(step, step), decorated(len), step):
        code = function.__code__
        assert watch.begin(code, {}, {}, {}, function.__closure__, True) == (code, True)
    # One that closes over nothing that is Python's own says nothing, nor does what names its arguments.
    ((place, name),) = watch.wrappers.items()
    assert name == "step" and place.startswith(f"{__file__}:")


def test_recompiles_and_compilations_have_that_name(tmp_path: Path, profiled_runs: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(profiled_runs / "several.run", run)
    head = {"kind": "process", "schema": "inspector.record/1", "pid": 1, "hooks": [], "missing": []}
    calls = {"kind": "calls", "callables": [], "wrappers": {"/home/user/work/p.py:19": "Net.small"}}
    (run / "record").mkdir()
    (run / "record" / "rank0.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(calls)}\n")
    opened = Run.open(run)
    assert [item.function for item in opened.facts().recompiles] == ["small of Net.small"]
    if opened.traces:
        names = [
            item.function.function
            for each in trace_report(opened).traces
            for item in each.content.compilations
            if item.function is not None and item.function.line == 19
        ]
        assert names and set(names) == {"small of Net.small"}


def test_calls_of_new_sizes_are_told_from_those_that_come_again() -> None:
    """Nothing where the recorder left calls, or sizes, out."""
    item = made([50.0, 3.0, 52.0, 4.0], (900.0,), sizes=(("a",), ("b",)), steady_sizes=(0, 0, 1, 0))
    whole = replace(item, calls=5)
    assert first_and_later(whole) == [(50.0, 3.5), (52.0, None)]
    for other in (
        replace(whole, calls=1500),
        replace(whole, steady_sizes=(0, 0, 2, 0)),
        replace(whole, steady_sizes=()),
    ):
        assert first_and_later(other) == []
