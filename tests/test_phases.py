"""Calls of one callable with gradients and without, and of callables that are called one after another: the
account and the profile are of one kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from explaining import bare

from inspector.analysis.calls import CallPayOff
from inspector.analysis.phases import WITH, WITHOUT, Meant, in_meant, main_calls, main_phase, of_meant
from inspector.analysis.steady import OTHERS
from inspector.capture import profiles
from inspector.capture.profiles import plan_calls, plan_profile
from inspector.capture.recorder.journal import SIZES_LIMIT, Entry
from inspector.explain.engine import explain_case
from inspector.explain.sized_calls import RECOMPILE_LIMIT, few_sizes, losing_calls
from inspector.explain.times import Times, graph_times, measured_times, steady_call_ms
from inspector.model.calls import (
    CallGroup,
    CompiledCallable,
    GraphRuns,
    ProcessCalls,
    Steady,
    SteadySpan,
    VariantRun,
)
from inspector.present.answer import headline
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
    trained, passed = of_meant([FORECAST, PASS], Meant(WITH))
    assert (trained.calls, set(trained.steady_ms), len(trained.steady_faults)) == (80, {10.0}, 79)
    assert passed is PASS
    (sampled,) = of_meant([FORECAST, PASS], Meant(WITHOUT))
    assert set(sampled.steady_ms) == {4.0, 6.0} and sampled.calls == 180
    assert of_meant([FORECAST, PASS], Meant()) == [FORECAST, PASS]


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


def test_calls_of_one_size_are_not_told_without_the_passes_that_make_them_whole() -> None:
    """A cell that is called 40 times in a pass: no call has a backward pass of its own."""
    cell = net((0, 80, 10.0), (1, 60, 6.0))
    times = measured_times(_run(("compiled", [cell, backward(2, 400.0)])))
    assert times.by_sizes is not None and times.sized == ()
    assert {group.compiled.median_ms for group in times.by_sizes.groups} == {10.0, 6.0}
    alone = measured_times(_run(("compiled", [net((1, 80, 10.0), (0, 60, 6.0))])))
    assert alone.by_sizes is not None and alone.sized == alone.by_sizes.groups


def _run(*variants: tuple[Any, Sequence[CompiledCallable]]) -> Run:
    made = [VariantRun(name, 0, 1.0, (ProcessCalls(1, 0, tuple(items)),)) for name, items in variants]
    return cast(Run, SimpleNamespace(variants=tuple(made), records=(), manifest=None))


def test_a_call_is_one_of_that_kind_on_both_sides() -> None:
    eager = [net((0, 79, 7.0), (1, 178, 9.0), cold=(0,)), backward(79, 11.0)]
    run = _run(("captured", [FORECAST, PASS]), ("compiled", [FORECAST, PASS]), ("eager", eager))
    times = measured_times(run)
    assert (times.meant.phase, times.compiled_ms, times.eager_ms) == (
        WITH,
        pytest.approx(24.0),
        pytest.approx(18.0),
    )
    assert times.outcome == "slower" and times.calls == 260
    # What compiling cost is that of the whole run, and the calls of all sizes are told.
    assert times.cold_ms is not None and times.cold_ms > 1700
    assert times.by_sizes is not None and times.by_sizes.kind == "call"
    # With its backward pass, as the call that is told above.
    both = {
        group.sizes: (group.compiled.median_ms, group.eager.median_ms if group.eager is not None else None)
        for group in times.by_sizes.groups
    }
    assert sorted(both.values()) == [(6.0, 9.0), (pytest.approx(24.0), pytest.approx(18.0))]
    assert times.sized == times.by_sizes.groups
    assert steady_call_ms((ProcessCalls(1, 0, (FORECAST, PASS)),)) == pytest.approx(24.0)
    alone = measured_times(_run(("compiled", [net((0, 40, 10.0)), backward(39, 14.0)])))
    assert alone.meant.phase is None


def test_a_pass_has_as_many_backwards_as_it_has_losses() -> None:
    """Three losses in turn, each with a backward of its own: a call was a third of what graphs and profile
    are of, and its kernels took 237 % of it."""
    losses = [
        replace(net((0, 80, ms)), name=f"loss{ms}", order=number) for number, ms in enumerate((2.0, 3.0, 4.0))
    ]
    run = _run(("compiled", [*losses, backward(242, 5.0)]))
    times = measured_times(run)
    assert (times.compiled_ms, times.calls) == (pytest.approx(24.0), 81)
    only = measured_times(_run(("compiled", [backward(240, 5.0)])))
    assert (only.compiled_ms, only.calls) == (pytest.approx(5.0), 241)


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
    of = graph_times(in_meant((process,), Meant(WITH))).of
    assert {graph: runs for (_, graph), (runs, _) in of.items()} == {
        "model__0_forward_1.0": 1.0,
        "model__0_backward_2.1": 1.0,
    }
    of = graph_times(in_meant((process,), Meant(WITHOUT))).of
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
        both = cast(Run, SimpleNamespace(variants=(captured, *run.variants), records=(), manifest=None))
        assert measured_times(both).meant.phase == phase


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
    assert (times.meant.phase, times.outcome) == (WITH, "faster")
    case = bare(times)
    (told,) = losing_calls(case, "slower_than_eager", "see")
    assert "without gradients" in told.title and told.cost_ms is None and told.claims == ()
    mean = replace(case, times=replace(times, meant=Meant()))
    (told,) = losing_calls(mean, "slower_than_eager", "see")
    assert told.cost_ms == pytest.approx(4.0 / 3) and len(told.claims) == 1


@pytest.mark.parametrize(("sizes", "few"), [(3, True), (RECOMPILE_LIMIT, True), (RECOMPILE_LIMIT + 1, False)])
@pytest.mark.parametrize("others", [False, True])
def test_each_size_is_compiled_for_where_torch_would_not_give_up(sizes: int, few: bool, others: bool) -> None:
    took = Steady(5.0, 0.1, 30)
    alike = [(WITH, f"8x{number}") for number in range(sizes - others)] + [(WITH, *OTHERS)] * others
    groups = [CallGroup(each, (each,), took, took, "same") for each in alike]
    case = bare(Times(by_sizes=cast(CallPayOff, SimpleNamespace(groups=groups))))
    assert few_sizes(case) == (few and not others)


def _after_each_other() -> tuple[CompiledCallable, ...]:
    """A loss that is trained, with its backward pass, and a step of a simulation behind it, in more calls."""
    loss = net((0, 60, 10.0), name="loss", span=(0, 121))
    passed = replace(backward(60, 14.0), span=(1, 122))
    step = net((1, 150, 0.5), name="step", order=1, span=(123, 273))
    return loss, passed, step


def _twice_as_long() -> list[CompiledCallable]:
    """In eager, where nothing compiles."""
    return [
        replace(item, steady_ms=tuple(2 * ms for ms in item.steady_ms), cold_ms=(40.0,))
        for item in _after_each_other()
    ]


def test_callables_that_are_called_one_after_another_are_no_one_call() -> None:
    times = measured_times(_run(("compiled", _after_each_other()), ("eager", _twice_as_long())))
    assert (times.compiled_ms, times.eager_ms, times.only) == (24.0, 48.0, ("loss",))
    assert times.calls == 61 and times.meant.callables == {("call", 0), ("backward", 0)}
    # What compiling cost is that of all of them.
    assert times.cold_ms is not None and times.cold_ms > 2200
    # As they take turns, or where nobody counted when, they are.
    for span in ((100, 273), None):
        loss, passed, step = _after_each_other()
        mixed = measured_times(_run(("compiled", (loss, passed, replace(step, span=span)))))
        assert mixed.only == () and mixed.compiled_ms == pytest.approx(0.5 + 24.0 * 61 / 151)
    # Two processes count apart.
    both = tuple(ProcessCalls(number, 0, _after_each_other()) for number in (1, 2))
    assert main_calls(both).callables == frozenset()


def test_what_the_end_of_a_run_is_like_is_told_of_what_is_called_there() -> None:
    loss, passed, step = _after_each_other()
    for items, told in (((loss, passed, step), False), ((loss, passed), True)):
        process = ProcessCalls(1, 0, items, steady_span=SteadySpan(9, 10.0, 8.0))
        variants = (VariantRun("compiled", 0, 1.0, (process,)),)
        run = SimpleNamespace(variants=variants, records=(), manifest=None)
        assert (measured_times(cast(Run, run)).span is not None) == told


def test_graphs_of_what_is_called_before_or_after_are_left_out() -> None:
    graphs = tuple(
        replace(graph, span=span, trained=None)
        for graph, span in zip(GRAPHS, ((0, 121), (1, 122), (123, 273)), strict=True)
    )
    process = ProcessCalls(1, 0, _after_each_other(), graph_runs=graphs)
    (kept,) = in_meant((process,), main_calls((process,)))
    assert [graph.graph for graph in kept.graph_runs] == ["model__0_forward_1.0", "model__0_backward_2.1"]
    assert [item.name for item in kept.callables] == ["loss", "backward"]


def test_calls_are_those_that_were_profiled() -> None:
    """An older capture has a profile of what is called most, and a newer one says of what."""
    variants = _run(("compiled", _after_each_other())).variants
    for profile, only in (
        ({}, "step"),
        ({"order": 0}, "loss"),
        ({"order": 1}, "step"),
        ({"order": 7}, "loss"),
    ):
        manifest = SimpleNamespace(baseline={"compiled": {"profile": profile}})
        run = SimpleNamespace(variants=variants, records=(), manifest=manifest)
        assert measured_times(cast(Run, run)).only == (only,)


def test_the_profile_is_of_callables_that_most_time_passes_in(tmp_path: Path) -> None:
    folder = tmp_path / "baseline" / "compiled" / "record"
    folder.mkdir(parents=True)
    rows = [
        {
            "name": item.name, "location": f"a.py:{line}", "order": item.order, "kind": item.kind,
            "calls": item.calls, "first_ms": 900.0, "total_ms": item.total_ms, "cold_ms": [900.0],
            "cold_index": [0], "steady_ms": item.steady_ms, "span": item.span,
        }
        for line, item in enumerate(_after_each_other(), 1)
    ]  # fmt: skip
    head = {"kind": "process", "schema": "inspector.record/1", "pid": 7, "rank": 0}
    lines = (head, {"kind": "calls", "callables": rows, "events": [], "counters": {}})
    (folder / "rank0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan, _ = plan_profile(tmp_path)
    assert plan is not None and plan.order == 0 and plan.first + plan.calls < 61


@pytest.mark.parametrize(
    ("acts", "ms", "calls"), [(20, 1.5, 20), (64, 10.0, 64), (65, 1.5, 1), (16, 50.0, 16), (20, 11.0, 1)]
)
def test_a_round_of_an_episodes_steps_and_its_update_is_profiled_whole(
    acts: int, ms: float, calls: int
) -> None:
    actor = net((1, 25 * acts - 1, ms))
    learner = replace(net((0, 24, 20.0)), order=1)
    assert profiles._round(actor, [actor, learner]) == calls


def test_a_few_calls_before_all_rounds_leave_these_as_they_are() -> None:
    """A cipher's self-test, ten calls and none of what is called once a record: a profile of two calls had
    eight times as much of that as a call."""

    def rounds(main: int, *others: int) -> int:
        called = [replace(net((0, 30, 0.7)), calls=count, order=n) for n, count in enumerate((main, *others))]
        return profiles._round(called[0], called)

    assert rounds(620, 61) == 10
    assert rounds(620, 61, 31) == 20
    assert rounds(620, 61, 207) == 1, "ten times and three times"
    assert rounds(621, 95) == 1, "neither six nor seven times"
    assert rounds(620, 619) == 1 and rounds(620) == 1
    assert rounds(621, 2000) == 1


def test_what_is_said_names_the_functions_whose_calls_are_meant() -> None:
    case = bare(measured_times(_run(("compiled", _after_each_other()), ("eager", _twice_as_long()))))
    answer = explain_case(case)
    assert answer.only == ("loss",)
    *_, how = headline(answer)
    assert how == "measured: 60 calls of loss (others come before or after), ± 0 %"
