"""Calls of one callable with gradients and without: the account and the profile are of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from explaining import bare

from inspector.analysis.phases import WITH, WITHOUT, in_phase, main_phase, of_phase
from inspector.capture.profiles import plan_calls
from inspector.capture.recorder.journal import SIZES_LIMIT, Entry
from inspector.explain.sized_calls import losing_calls
from inspector.explain.times import graph_times, measured_times, steady_call_ms
from inspector.model.calls import CompiledCallable, GraphRuns, ProcessCalls, VariantRun
from inspector.readers.run import Run

TRAINED, SAMPLED = (WITH, "training", "64x56"), (WITHOUT, "eval", "2400x1")


def net(*rows: tuple[int, int, float], cold: tuple[int, ...] = (0,), **fields: Any) -> CompiledCallable:
    """Rows of (0 with gradients or 1 without, calls, milliseconds), with calls that compile at `cold`."""
    kinds = [kind for kind, count, _ in rows for _ in range(count)]
    steady = [ms for _, count, ms in rows for _ in range(count)]
    item = CompiledCallable(
        "Net", None, 0, None, "inductor", len(steady) + len(cold), 900.0, (900.0,) * len(cold), cold,
        tuple(steady), sum(steady) + 900.0 * len(cold), sizes=(TRAINED, SAMPLED), steady_sizes=tuple(kinds),
        steady_faults=tuple(range(len(steady))),
    )  # fmt: skip
    return replace(item, **fields)


def backward(count: int, ms: float) -> CompiledCallable:
    return CompiledCallable(
        "backward", None, 0, None, None, count + 1, 500.0, (500.0,), (0,), (ms,) * count, 500.0 + count * ms,
        kind="backward", sizes=(TRAINED,), steady_sizes=(0,) * count,
    )  # fmt: skip


FORECAST = net((0, 79, 10.0), (1, 11, 4.0), (1, 167, 6.0), cold=(0, 80, 81))
"""A forecaster that is trained, and then draws paths step by step, in more calls."""
PASS = backward(79, 14.0)


def test_the_kind_that_most_time_passes_in_is_meant_with_its_backward_passes() -> None:
    assert main_phase([FORECAST, PASS]) == WITH
    assert main_phase([FORECAST]) == WITHOUT
    trained, passed = of_phase([FORECAST, PASS], WITH)
    assert (trained.calls, set(trained.steady_ms), len(trained.steady_faults)) == (80, {10.0}, 79)
    assert passed is PASS
    (sampled,) = of_phase([FORECAST, PASS], WITHOUT)
    assert set(sampled.steady_ms) == {4.0, 6.0} and sampled.calls == 180
    assert of_phase([FORECAST, PASS], None) == [FORECAST, PASS]


def test_no_kind_is_meant_where_they_are_no_two_or_take_turns() -> None:
    assert main_phase([net((0, 50, 10.0)), PASS]) is None
    assert main_phase([net((0, 50, 10.0), (1, 2, 5.0)), PASS]) is None, "two calls of an evaluation"
    turns = [row for _ in range(30) for row in ((0, 1, 10.0), (1, 1, 5.0))]
    assert main_phase([net(*turns), PASS]) is None, "a student and its teacher"
    unknown = replace(FORECAST, sizes=(TRAINED,))
    assert main_phase([unknown, PASS]) is None
    # Acting is beside a loss that only trains: a call is one of each.
    acting = net((1, 400, 5.0), (0, 20, 5.0))
    assert main_phase([acting]) == WITHOUT
    assert main_phase([acting, replace(net((0, 50, 3.0)), name="loss")]) is None


def _run(*variants: tuple[Any, Sequence[CompiledCallable]]) -> Run:
    made = [VariantRun(name, 0, 1.0, (ProcessCalls(1, 0, tuple(items)),)) for name, items in variants]
    return cast(Run, SimpleNamespace(variants=tuple(made), records=()))


def test_a_call_is_one_of_that_kind_on_both_sides() -> None:
    eager = [net((0, 79, 7.0), (1, 178, 9.0), cold=(0,)), backward(79, 11.0)]
    run = _run(("captured", [FORECAST, PASS]), ("compiled", [FORECAST, PASS]), ("eager", eager))
    times = measured_times(run)
    assert (times.phase, times.compiled_ms, times.eager_ms) == (
        WITH,
        pytest.approx(24.0),
        pytest.approx(18.0),
    )
    assert times.outcome == "slower" and times.calls == 260
    # What compiling cost is that of the whole run, and the calls of all sizes are told.
    assert times.cold_ms is not None and times.cold_ms > 1700
    assert times.by_sizes is not None and len(times.by_sizes.groups) == 2
    assert steady_call_ms((ProcessCalls(1, 0, (FORECAST, PASS)),)) == pytest.approx(24.0)
    alone = measured_times(_run(("compiled", [net((0, 40, 10.0)), backward(39, 14.0)])))
    assert alone.phase is None


GRAPHS = tuple(
    GraphRuns(f"model__0_{name}", "run-1", runs, (ms,) * 20, trained=trained)
    for name, runs, ms, trained in (
        ("forward_1.0", 80, 8.0, 80),
        ("backward_2.1", 80, 12.0, 80),
        ("inference_3.2", 180, 5.0, 0),
    )
)


def test_graphs_that_ran_in_calls_of_the_other_kind_are_left_out() -> None:
    process = ProcessCalls(1, 0, (FORECAST, PASS), graph_runs=GRAPHS)
    of = graph_times(in_phase((process,), WITH)).of
    assert {graph: runs for (_, graph), (runs, _) in of.items()} == {
        "model__0_forward_1.0": 1.0,
        "model__0_backward_2.1": 1.0,
    }
    of = graph_times(in_phase((process,), WITHOUT)).of
    assert {graph: runs for (_, graph), (runs, _) in of.items()} == {"model__0_inference_3.2": 1.0}


def test_older_captures_have_a_profile_of_what_is_called_most() -> None:
    run = _run(("compiled", [FORECAST, PASS]))
    for graphs, phase in (
        (GRAPHS, WITH),
        (tuple(replace(g, trained=None) for g in GRAPHS), None),
        ((), WITH),
    ):
        process = ProcessCalls(1, 0, (FORECAST, PASS), graph_runs=graphs)
        captured = VariantRun("captured", 0, 1.0, (process,))
        both = cast(Run, SimpleNamespace(variants=(captured, *run.variants), records=()))
        assert measured_times(both).phase == phase


def test_the_profile_is_of_calls_of_that_kind() -> None:
    plan = plan_calls(FORECAST, phase=WITH)
    assert plan is not None and plan.first >= 1 and plan.first + plan.calls < 80
    usual = plan_calls(FORECAST)
    assert usual is not None and usual.first > 81
    # Each epoch ends with an evaluation: the longest row of the training between two of them.
    epochs = net((0, 30, 10.0), (1, 5, 4.0), (0, 45, 10.0), (1, 5, 4.0), cold=(0, 31))
    plan = plan_calls(epochs, phase=WITH)
    # Its calls count from the first, which compiled, as one of the evaluation did.
    assert plan is not None and plan.first >= 37 and plan.first + plan.calls < 37 + 45
    newest = replace(epochs, calls=1087, steady_ms=epochs.steady_ms[-40:], steady_sizes=(0,) * 35 + (1,) * 5)
    late = plan_calls(newest, phase=WITH)
    assert late is not None and late.first >= 1087 - 40 and late.first + late.calls < 1082


def test_of_more_sizes_than_are_kept_it_is_told_whether_they_have_gradients() -> None:
    entry = Entry("f", None, 0)
    entry.add(1.0, True)
    for number in range(SIZES_LIMIT + 5):
        entry.add(1.0, False, (WITH if number % 2 else WITHOUT, (number,)))
    data = entry.as_json()
    assert len(data["sizes"]) == SIZES_LIMIT + 2
    assert data["sizes"][-2:] == [[WITHOUT, "other sizes"], [WITH, "other sizes"]]
    assert data["steady_sizes"][-2:] == [SIZES_LIMIT + 1, SIZES_LIMIT]


def test_what_calls_of_the_other_kind_lose_is_told_and_is_no_part_of_the_account() -> None:
    """An evaluation that is slower than in eager beside a training that is not."""
    compiled = [net((0, 60, 10.0), (1, 30, 8.0)), backward(60, 14.0)]
    eager = [net((0, 60, 12.0), (1, 30, 4.0)), backward(60, 16.0)]
    times = measured_times(_run(("compiled", compiled), ("eager", eager)))
    assert (times.phase, times.outcome) == (WITH, "faster")
    case = bare(times)
    (told,) = losing_calls(case, "slower_than_eager", "see")
    assert "without gradients" in told.title and told.cost_ms is None and told.claims == ()
    mean = replace(case, times=replace(times, phase=None))
    (told,) = losing_calls(mean, "slower_than_eager", "see")
    assert told.cost_ms == pytest.approx(4.0 / 3) and len(told.claims) == 1
