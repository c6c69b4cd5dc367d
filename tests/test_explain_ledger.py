"""The ledger adds up whatever was measured, and rules weigh what they are given: real graphs, set times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from build import fx_graph, fx_node

from inspector.explain.accounts import open_account
from inspector.explain.case import Case, Launch
from inspector.explain.engine import explain_case
from inspector.explain.gather import (
    gather,
    newest_replays,
    of_this_run,
    runs_elsewhere,
    shared_out,
    slowed,
)
from inspector.explain.least import Machine
from inspector.explain.ledger import (
    EAGER,
    GUARDS,
    PYTHON,
    WHOLE_GRAPHS,
    WITHIN_GRAPHS,
    make_ledger,
    outside_graphs_ms,
)
from inspector.explain.rules import compile_cost
from inspector.explain.rules.cpu_serial import _available, _setting
from inspector.explain.rules.healthy import _near, healthy
from inspector.explain.times import Times, graph_times, measured_times
from inspector.model.calls import CompiledCallable, Event, GraphRuns, Outcome, ProcessCalls
from inspector.model.compilation import Specialization
from inspector.model.compile_time import CompileTime, Part
from inspector.model.explain import Explanation, Finding, Host, Ledger, Trial
from inspector.model.fx import TensorMeta
from inspector.model.peaks import CacheRate, Peaks
from inspector.model.replay import GraphReplay, KernelReplay, ReplayResult, Timing
from inspector.model.run import Manifest
from inspector.model.source import SourceLocation
from inspector.readers.run import Run
from inspector.replay.store import load_results


@pytest.fixture(scope="module")
def softmax(corpus: Path) -> Case:
    return gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))


def outcome_of(compiled: float, eager: float | None) -> Outcome:
    if eager is None:
        return "unknown"
    return "same" if abs(compiled - eager) <= 0.05 * eager else "faster" if compiled < eager else "slower"


def timed(
    case: Case, compiled: float, eager: float | None, inside: float | None, kernels: float | None
) -> Case:
    """`case` with those milliseconds; kernels share theirs equally, and have that much to do."""
    (graph,) = case.graphs
    launches, replay = graph.launches, graph.replay
    if kernels is not None:
        each = kernels / len(launches)
        launches = tuple(busy_for(item, each) for item in launches)
        time = Timing(each, 0.0, 5)
        replay = GraphReplay(
            graph.name,
            kernels=tuple(KernelReplay(item.name, item.call.index, "match", time=time) for item in launches),
        )
    times = Times(
        compiled_ms=compiled, eager_ms=eager, source="compiled run", calls=1000, steady_calls=999,
        cold_ms=5000.0, outcome=outcome_of(compiled, eager),
    )  # fmt: skip
    graph = replace(graph, in_process_ms=inside, launches=launches, replay=replay)
    return replace(case, times=times, graphs=(graph,))


def busy_for(launch: Launch, ms: float) -> Launch:
    """Measured, at 10 GB/s."""
    return replace(launch, ms=ms, measured=True, bytes=round(ms * 10e6), expected_ms=ms, in_vectors_ms=ms)


def parts(ledger: Ledger) -> dict[str, float]:
    return {part.part: part.ms for part in ledger.parts}


def added_up(ledger: Ledger) -> float:
    assert ledger.unexplained_ms is not None
    return sum(part.ms for part in ledger.parts) + ledger.unexplained_ms


def rules(explanation: Explanation) -> list[str]:
    return [finding.rule for finding in explanation.findings]


@pytest.mark.parametrize("inside", [None, 0.030])
@pytest.mark.parametrize("kernels", [None, 0.020, 0.060])
def test_parts_and_remainder_are_the_wall_time(
    softmax: Case, inside: float | None, kernels: float | None
) -> None:
    ledger = make_ledger(timed(softmax, 0.044, 0.022, inside, kernels))
    assert added_up(ledger) == pytest.approx(0.044, abs=1e-12)


def test_everything_measured_leaves_nothing_unexplained(softmax: Case) -> None:
    ledger = make_ledger(timed(softmax, 0.044, 0.022, 0.030, 0.020))
    found = parts(ledger)
    assert found["library kernels"] == pytest.approx(0.010)
    assert found["generated kernels"] == pytest.approx(0.010)
    assert found[WITHIN_GRAPHS] == pytest.approx(0.010)
    assert found[GUARDS] == pytest.approx(0.014)
    assert ledger.unexplained_ms == pytest.approx(0.0, abs=1e-12)
    assert ledger.missing == ()


def test_kernels_that_exceed_their_graph_are_not_hidden(softmax: Case) -> None:
    ledger = make_ledger(timed(softmax, 0.044, 0.022, 0.030, 0.060))
    assert ledger.unexplained_ms == pytest.approx(-0.030)


def test_what_no_wrapper_takes_stays_unexplained(softmax: Case) -> None:
    """Two launches take a wrapper 9 us, and 36 at most."""
    ledger = make_ledger(timed(softmax, 0.200, 0.100, 0.190, 0.020))
    assert parts(ledger)[WITHIN_GRAPHS] == pytest.approx(0.036)
    assert ledger.unexplained_ms == pytest.approx(0.190 - 0.020 - 0.036)


def test_without_a_replay_graphs_are_whole(softmax: Case) -> None:
    ledger = make_ledger(timed(softmax, 0.044, None, 0.030, None))
    assert parts(ledger)[WHOLE_GRAPHS] == pytest.approx(0.030)
    assert any("eager" in text for text in ledger.missing)
    assert any("kernels" in text for text in ledger.missing)


def test_calls_alone_leave_all_unexplained(softmax: Case) -> None:
    ledger = make_ledger(timed(softmax, 0.044, 0.022, None, None))
    assert ledger.parts == ()
    assert ledger.unexplained_ms == 0.044


def test_time_between_graphs_belongs_to_breaks_where_there_are_some(softmax: Case) -> None:
    case = timed(softmax, 0.500, 0.300, 0.030, None)
    broken = replace(case, events=(Event("graph_break", "print", "f", None),))
    assert parts(make_ledger(broken))[PYTHON] == pytest.approx(0.470)


def test_break_even(softmax: Case) -> None:
    assert make_ledger(timed(softmax, 0.020, 0.070, 0.018, None)).break_even_calls == 100_000
    assert make_ledger(timed(softmax, 0.070, 0.020, 0.018, None)).break_even_calls is None
    assert make_ledger(timed(softmax, 0.068, 0.070, 0.018, None)).break_even_calls is None, "within the noise"


def test_slower_than_eager_by_what_the_host_takes(softmax: Case) -> None:
    result = explain_case(timed(softmax, 0.044, 0.022, 0.030, 0.025))
    assert rules(result)[0] == "host_bound"
    assert result.findings[0].severity == "high"
    assert result.verdict.startswith("2.00x slower than eager: ")


def test_faster_and_long_enough_is_healthy(softmax: Case) -> None:
    result = explain_case(timed(softmax, 3.0, 6.0, 2.95, 2.9))
    assert rules(result)[0] == "healthy"
    assert result.verdict.startswith("2.00x faster than eager: nothing worth changing")


def test_what_was_not_compared_or_could_surely_be_faster_is_not_healthy(softmax: Case) -> None:
    alone = explain_case(timed(softmax, 3.0, None, 2.95, 2.9)).findings[0]
    assert alone.rule == "nothing_found" and "it was not compared with eager" in alone.title
    few = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    few = replace(few, times=replace(few.times, outcome="unknown"))
    assert "too few calls" in explain_case(few).findings[0].title
    case = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    ledger = make_ledger(case)
    account = open_account(case, ledger)
    for claimed, most, rule in ((0.1, 0.4, "healthy"), (0.4, 1.0, None), (0.0, 0.7, None)):
        said = healthy(case, ledger, replace(account, claimed_ms=(claimed, most)))
        assert (said.rule if said is not None else None) == rule


def test_what_fits_a_cache_is_near_its_rate_and_not_that_of_memory() -> None:
    peaks = Peaks("cpu", "measured", 20e9, cache_bytes=1 << 26, cache_rates=(CacheRate(1 << 24, 60e9),))
    machine = Machine(peaks, "counted")
    assert not _near(machine, 1 << 25, (1 << 25) / 15e9 * 1e3), "of 60 GB/s"
    assert _near(machine, 1 << 25, (1 << 25) / 45e9 * 1e3)
    assert _near(machine, 1 << 30, (1 << 30) / 15e9 * 1e3)
    assert not _near(Machine(None, "estimated"), 1 << 25, 1.0)


@pytest.mark.parametrize(
    ("name", "way"),
    [("torch.ops.aten.median.dim", ""), ("torch.ops.aten.linalg_inv_ex.default", "torch.linalg.solve")],
)
def test_an_operator_far_from_what_memory_gives_is_no_bound(
    softmax: Case, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    """As aten.median, 30 times slower than its bytes: nobody has shown that nothing is faster."""
    case = timed(softmax, 3.0, 6.0, 2.95, None)
    (graph,) = case.graphs
    monkeypatch.setattr("inspector.explain.rules.healthy._near", lambda _, moved, ms: moved / ms > 1e9)
    for moved, rule in ((round(3e10), "healthy"), (1000, "nothing_found")):
        launches = tuple(
            replace(
                item,
                ms=2.8,
                measured=True,
                role="fallback",
                bytes=moved,
                call=replace(item.call, kernel=name),
            )
            if item is graph.launches[-1]
            else replace(item, ms=0.05, measured=True)
            for item in graph.launches
        )
        told = explain_case(replace(case, graphs=(replace(graph, launches=launches),))).findings
        said = next(finding for finding in told if finding.rule in ("healthy", "nothing_found"))
        assert said.rule == rule and name.removeprefix("torch.ops.") in said.title
        assert way in said.advice or rule == "healthy"
        assert "torch.linalg.solve" not in said.advice or way
        assert said.evidence[0].text == f"the longest kernel, 2.80 ms: {name}"


def test_library_time_that_eager_has_too(softmax: Case) -> None:
    case = timed(softmax, 3.0, 3.05, 2.95, None)
    (graph,) = case.graphs
    launches = tuple(
        replace(item, ms=2.8 if item.role == "library" else 0.1, measured=True) for item in graph.launches
    )
    result = explain_case(replace(case, graphs=(replace(graph, launches=launches),)))
    assert rules(result)[0] == "extern_dominated"
    assert result.findings[0].severity == "medium"
    assert result.verdict.startswith("as fast as eager")


def library_heavy(case: Case, eager: float) -> Case:
    """3 ms a call, 2.9 of them in the library."""
    case = timed(case, 3.0, eager, 2.95, None)
    (graph,) = case.graphs
    launches = tuple(busy_for(item, 2.9 if item.role == "library" else 0.05) for item in graph.launches)
    return replace(case, graphs=(replace(graph, launches=launches),))


def test_libraries_dominate_where_the_rest_would_hardly_be_seen(softmax: Case) -> None:
    found = rules(explain_case(library_heavy(softmax, 4.5)))
    # Both are said, that one last: numbers are the same where it is left out.
    assert found[0] == "extern_dominated" and found[-1] == "healthy" and len(found) > 2
    (graph,) = library_heavy(softmax, 4.5).graphs
    launches = tuple(busy_for(item, 2.5 if item.role == "library" else 0.45) for item in graph.launches)
    more = replace(library_heavy(softmax, 4.5), graphs=(replace(graph, launches=launches),))
    assert rules(explain_case(more))[0] == "healthy"


def test_recompiles_of_what_a_break_hands_on_stand_below_the_break(softmax: Case) -> None:
    case = timed(softmax, 3.0, 2.0, 0.5, 0.4)
    case = replace(case, times=replace(case.times, recompile_ms=500.0))
    broken = Event("graph_break", "Tensor.tolist()", "f", SourceLocation("user.py", 7))
    again = Event("recompile", "4/0: ___stack0[1013] == 1.27", "resume", None, 9)
    found = explain_case(replace(case, events=(broken, again))).findings
    names = [finding.rule for finding in found]
    assert names.index("graph_breaks") < names.index("recompiles")
    recompiles = found[names.index("recompiles")]
    assert recompiles.severity == "medium" and "graph break" in recompiles.advice


def test_a_call_that_was_interrupted_says_nothing_of_the_others() -> None:
    """Twenty calls of 0.1 ms, half of it in the graph, and one of 50 ms spent waiting inside of the graph."""
    walls = (*(0.1,) * 10, 50.0, *(0.1,) * 10)
    item = CompiledCallable("f", None, 0, None, None, 22, 900.0, (900.0,), (0,), walls, 952.0)
    runs = (800.0, *(49.9 if wall == 50.0 else 0.05 for wall in walls))
    graph = GraphRuns("model__0_inference_0.0", "run-pid_1", 22, runs)
    found = graph_times([ProcessCalls(1, 0, (item,), graph_runs=(graph,))])
    assert found.of["run-pid_1", "model__0_inference_0.0"] == (1.0, pytest.approx(0.05))
    assert found.wall_ms == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("cold", "keeps"),
    [
        ((0, 1, 32), False),
        ((0, 1, 2, 3), False),
        ((0, 40, 50), True),
        # An evaluation behind a training: two in a row, and many calls that compile nothing.
        ((0, 1, 50, 51), False),
        ((0, 1, 50, 52), False),
        ((0, 1, 50, 53), True),
        ((0, 1, 62, 63), True),
        ((0, *range(32, 60)), True),
    ],
)
def test_one_recompile_after_half_of_the_calls_leaves_them_steady(cold: tuple[int, ...], keeps: bool) -> None:
    item = CompiledCallable("f", None, 0, None, None, 64, 9.0, (9.0,) * len(cold), cold, (0.1,) * 60, 42.0)
    records = (SimpleNamespace(calls=ProcessCalls(1, 0, (item,))),)
    run = SimpleNamespace(variants=(), records=records, manifest=None)
    assert measured_times(cast(Run, run)).recompiling is keeps


def test_graphs_of_other_calls_are_in_no_profiled_one() -> None:
    """Thirteen networks of a search: a call has one of them, and had those of a profiled call and a part of
    all others' (of its 81 us of generated code masks were to take 659)."""
    record = ((0.33, 1.0), (0.22, 2.0), (0.22, None), (0.23, 1.0))
    assert runs_elsewhere({"one": 1.0}, record) == 0.0
    assert runs_elsewhere({"one": 0.5}, record) is None
    assert runs_elsewhere({}, record) is None


def test_a_graph_that_never_ran_takes_no_time() -> None:
    item = CompiledCallable("f", None, 0, None, None, 20, 900.0, (900.0,), (0,), (0.1,) * 19, 902.0)
    found = graph_times([ProcessCalls(1, 0, (item,), graph_runs=(GraphRuns("g", "p", 0, ()),))])
    assert found.of["p", "g"] == (0.0, 0.0)


def test_a_launch_of_no_known_size_is_weighed_all_the_same(softmax: Case) -> None:
    """Without the IR nothing is known of a kernel but its source, whose loops may be scalar and long."""
    (graph,) = softmax.graphs
    head = "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(9000L); x0+=1)"
    loop = f"{head}\n{{ auto tmp0 = 1; }}\n"
    launches = tuple(
        replace(item, ms=0.0, bytes=None, kernel=replace(item.kernel, source=loop)) if item.kernel else item
        for item in graph.launches
    )
    assert "x0+=1)" in next(item.source for item in launches if item.role == "generated")
    result = explain_case(replace(softmax, graphs=(replace(graph, launches=launches),)))
    assert "cpu_not_vectorized" not in rules(result)


def test_a_graph_that_ran_once_is_in_no_steady_call() -> None:
    item = CompiledCallable("f", None, 0, None, None, 60, 900.0, (900.0,), (0,), (0.08,) * 59, 904.0)
    once = GraphRuns("model__0_inference_0.0", "run-pid_1", 1, (18.7,))
    found = graph_times([ProcessCalls(1, 0, (item,), graph_runs=(once,))])
    assert found.of["run-pid_1", "model__0_inference_0.0"][0] == 0.0


def test_lines_that_a_graph_has_many_times_are_what_to_compile(softmax: Case) -> None:
    case = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    lines = [7, 8] * 12
    graph = fx_graph(*(fx_node(f"x_{number}", "mul", line=line) for number, line in enumerate(lines)))
    (own,) = case.graphs
    case = replace(case, traced=lambda: {own.artifacts.compile_id or "": graph})
    case = replace(case, times=replace(case.times, cold_ms=9e6, calls=50))
    (told,) = compile_cost.find(case)
    assert told.title.endswith(
        "2 lines of the program come 12 times and more in one graph, 24 of 24 operators"
    )
    assert [item.line for item in told.evidence[1:]] == [7, 8] and told.severity == "low"
    assert told.advice.startswith("compile what comes again")
    (few,) = compile_cost.find(replace(case, times=replace(case.times, calls=3)))
    assert few.advice.startswith("for so few calls")


def test_few_calls_do_not_pay_for_compiling(softmax: Case) -> None:
    case = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    result = explain_case(replace(case, times=replace(case.times, calls=3, steady_calls=2)))
    assert rules(result)[0] == "compile_cost_not_amortized"
    many = explain_case(case)
    assert all(finding.severity == "low" for finding in many.findings)


def test_compiling_that_did_not_end_is_said(softmax: Case) -> None:
    parts: dict[Part, int] = {"dynamo": 4_000_000_000, "scheduling": 172_000_000_000}
    time = CompileTime(None, sum(parts.values()), parts, {}, complete=False)
    ended = Manifest(("python", "x.py"), "interrupted", 143, 0.0, 239.0)
    facts = replace(softmax.facts, manifest=ended)
    first = explain_case(replace(softmax, facts=facts, in_trace=time, times=Times())).findings[0]
    assert (first.rule, first.severity) == ("compile_cost_not_amortized", "high")
    assert first.title == (
        "176 s of compiling, and no call was done when the command was ended: Inductor scheduling 172 s"
    )
    for trace, of in ((replace(time, complete=True), facts), (time, softmax.facts)):
        done = explain_case(replace(softmax, facts=of, in_trace=trace, times=Times()))
        assert "compile_cost_not_amortized" not in rules(done)


def test_recompiles_are_high_where_one_function_is_compiled_again_and_again(softmax: Case) -> None:
    case = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    case = replace(case, times=replace(case.times, recompile_ms=2_000.0))
    size = "tensor 'x' size mismatch at index 0. expected 16, actual "
    first = explain_case(replace(case, events=(Event("recompile", f"{size}8", "f", None, 4),))).findings[0]
    assert (first.rule, first.severity) == ("recompiles", "high")
    assert first.trial is not None and first.trial.dynamic is True
    # Once each is what automatic dynamic shapes take, and a size of 1 has a graph of its own.
    once = [Event("recompile", f"{size}8", name, None) for name in "fghi"]
    once.append(Event("recompile", f"{size}1", "f", None))
    (item,) = (f for f in explain_case(replace(case, events=tuple(once))).findings if f.rule == "recompiles")
    assert item.severity == "low"

    def severity(*events: Event, recompiling: bool = False) -> str:
        other = replace(case, events=events, times=replace(case.times, recompiling=recompiling))
        (item,) = (f for f in explain_case(other).findings if f.rule == "recompiles")
        return item.severity

    # A program that goes on compiling has no steady call.
    assert severity(*once, recompiling=True) == "medium"
    # A number that changes is one that may from then on, as a size; two graphs for it are one too many.
    number = [Event("recompile", f"0/{at}: L['n'] == {at}", "f", None) for at in range(2)]
    size_too = Event("recompile", f"0/1: {size}8", "f", None)
    assert (severity(number[0], size_too), severity(*number)) == ("low", "high")
    assert (
        severity(size_too, Event("recompile", f"0/2: {size}8".replace("index 0", "index 1"), "f", None))
        == "high"
    )
    assert severity(number[0], Event("recompile", "check_obj_id(f, 7)", "f", None)) == "medium"
    # A function that is compiled again for many things is so again and again.
    many = [Event("recompile", f"0/{at}: L['n{at}'] == 3", "f", None) for at in range(4)]
    assert (severity(*many[:3]), severity(*many)) == ("low", "high")
    # What a break hands on is compiled apart because of the break.
    resumed = (Event("recompile", f"{size}8", "torch_dynamo_resume_in_f_at_7", None, 2),)
    (item,) = (f for f in explain_case(replace(case, events=resumed)).findings if f.rule == "recompiles")
    assert item.severity == "medium" and item.advice.startswith("a graph break hands on")


def test_one_compiled_method_of_modules_whose_weights_differ_is_a_matter_of_what_holds_them(
    softmax: Case,
) -> None:
    """As UNet++ with ``@torch.compile`` on its block's forward: guards told of sizes of `x`."""
    (graph,) = softmax.graphs[:1]
    weight, given = fx_node("l_self_modules_c1_parameters_weight_", ""), fx_node("L_x_", "")

    def case(*channels: int) -> Case:
        names = [f"0/{number}" for number in range(len(channels))]
        shapes = [((number, 3), (8, 2 + at)) for at, number in enumerate(channels)]
        frames = {
            name: fx_graph(
                replace(weight, meta=TensorMeta("float32", of_weight)),
                replace(given, meta=TensorMeta("float32", of_x)),
            )
            for name, (of_weight, of_x) in zip(names, shapes, strict=True)
        }
        graphs = tuple(replace(graph, artifacts=replace(graph.artifacts, compile_id=name)) for name in names)
        events = tuple(
            Event(
                "recompile",
                f"{name}: tensor 'x' size mismatch at index 1. expected 7, actual 9",
                "forward",
                None,
            )
            for name in names[:-1]
        )
        case = replace(
            timed(softmax, 3.0, 6.0, 2.95, 2.9), graphs=graphs, events=events, traced=lambda: frames
        )
        return replace(case, times=replace(case.times, recompile_ms=2_000.0))

    def told(case: Case) -> Finding:
        (finding,) = (item for item in explain_case(case).findings if item.rule == "recompiles")
        return finding

    of_modules = told(case(4, 8, 16, 8))
    assert "have 3 sets of shapes" in of_modules.title and "compile what holds them" in of_modules.advice
    # The same weights for each size of x are one module's.
    assert "sets of shapes" not in told(case(4, 4, 4, 4)).title
    # Past the limit some calls run in eager: that is what a call costs, and not the run alone.
    whole = case(4, 8, 16, 8)
    past = replace(
        whole,
        events=(*whole.events, Event("cache_limit", "recompile limit", "forward", None)),
        graphs=tuple(replace(graph, runs=0.15) for graph in whole.graphs),
    )
    found = told(past)
    assert "it runs in eager in 40 % of the calls" in found.title and found.account == "call"
    assert found.trial == Trial(config=(("dynamo.cache_size_limit", 64),)) and of_modules.trial is None
    # One of five graphs is another module's: that is no reason for the four.
    assert "sets of shapes" not in told(case(4, 4, 4, 4, 8)).title


def test_what_makes_a_number_or_a_size_one_in_each_graph_is_named(softmax: Case) -> None:
    """As ``diagonal(offset=span - 1)``, whose argument takes no symbol: dynamic shapes do not help."""
    place = SourceLocation("rna.py", 43, "fill_span", "closed = logw.diagonal(offset=span - 1)")
    slow = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    slow = replace(slow, times=replace(slow.times, recompile_ms=2_000.0))

    def told(
        guard: str, source: str, values: Mapping[str, str], at: SourceLocation | None = place
    ) -> Finding:
        fixed = {
            name: (Specialization("L['other']", "5", "", at, 7), Specialization(source, value, "", at, 7))
            for name, value in values.items()
        }
        events = tuple(Event("recompile", f"0/{n}: {guard}{n + 5}", "f", None) for n in range(3))
        case = replace(slow, events=events, fixed=lambda: fixed)
        (finding,) = (item for item in explain_case(case).findings if item.rule == "recompiles")
        return finding

    # The first graph has a number as it is, and later ones would have a symbol.
    number = told("L['span'] == ", "L['span']", {"0/1": "6", "0/2": "7"})
    assert number.advice.startswith("span is a number in each graph since rna.py:43: ")
    assert (number.evidence[0].path, number.evidence[0].line) == ("rna.py", 43)
    assert number.evidence[0].text == "makes span a number: closed = logw.diagonal(offset=span - 1)"
    size = told("tensor 'x' size mismatch at index 1. expected 9, actual ", "L['x'].size()[1]", {"0/2": "9"})
    assert "x.size()[1]" not in size.advice, "one size is no number in several graphs"
    # Another number, another input, or no line: nothing is named.
    for other in (
        told("L['span'] == ", "L['span']", {"0/1": "9"}),
        told("L['n'] == ", "L['span']", {"0/1": "6"}),
        told("L['span'] == ", "L['span']", {"0/1": "6"}, None),
    ):
        assert "pass it as a tensor" in other.advice and other.evidence[0].line != 43


def test_recompiles_that_no_later_call_waited_for_are_no_cost(softmax: Case) -> None:
    """A library's hooks, made in the first call, are compiled once for each of their keys; later calls that
    waited for a sixtieth of what compiling took are no loud cost either."""
    case = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    events = tuple(Event("recompile", f"7/{n}: key == 'part{n}'", "hook", None) for n in range(3))
    for recompile_ms, severity in ((0.0, "low"), (400.0, "low"), (8_000.0, "high")):
        times = replace(case.times, calls=24, cold_ms=25_000.0, recompile_ms=recompile_ms)
        found = explain_case(replace(case, events=events, times=times)).findings
        assert [item.severity for item in found if item.rule == "recompiles"] == [severity]


def test_walls_and_graphs_are_of_the_same_calls() -> None:
    """A busy machine doubled half of the calls; the graph's share of a call stays 3/4, and nothing is scaled
    to the wall time of another run."""
    walls = (4.0, 8.0) * 10
    item = CompiledCallable("f", None, 0, None, None, 21, 900.0, (900.0,), (0,), walls, 1020.0)
    graph = GraphRuns("model__0_inference_0.0", "run-pid_1", 21, (800.0, *(wall * 0.75 for wall in walls)))
    found = graph_times([ProcessCalls(1, 0, (item,), graph_runs=(graph,))])
    runs, ms = found.of["run-pid_1", "model__0_inference_0.0"]
    assert runs == 1.0 and found.wall_ms is not None
    assert ms == pytest.approx(0.75 * found.wall_ms) and 4.0 < found.wall_ms < 8.0


def test_estimates_share_the_graphs_time_and_measurements_stay(softmax: Case) -> None:
    (graph,) = softmax.graphs
    first, *rest = graph.launches
    launches = shared_out((replace(first, ms=0.010, measured=True), *rest), 0.030)
    assert launches[0].ms == 0.010
    assert sum(item.ms for item in launches) == pytest.approx(0.030 - 0.005 - 0.002 * len(launches))


def test_a_replay_that_takes_longer_than_the_run_gives_shares_and_no_times(softmax: Case) -> None:
    """Under another load 60 ms were replayed of a graph that took 20 with everything in it."""
    first, second = softmax.graphs[0].launches
    launches = (replace(first, ms=45.0, measured=True), replace(second, ms=15.0, measured=True))
    shares = of_this_run(launches, 20.0)
    assert [(item.ms, item.measured) for item in shares] == [(15.0, False), (5.0, False)]
    assert of_this_run(launches, 59.0) == launches


def test_no_part_of_a_call_is_longer_than_the_call() -> None:
    """The replay of a captured run, made while others worked, took three times the call."""
    run = Run.open(Path(__file__).parent.parent / "sample_runs" / "stories" / "warp" / "run.tar.xz")
    case = gather(run, load_results(run.root))
    ledger = make_ledger(case)
    assert ledger.compiled_ms is not None
    assert all(part.ms <= ledger.compiled_ms for part in ledger.parts)
    assert any("alone the kernels take 59.5 ms, in the run its" in doubt for doubt in ledger.doubts)


def test_the_newest_replay_with_kernels_counts() -> None:
    timing = Timing(1.0, 0.1, 5)
    kernel = KernelReplay("k", 0, "match", time=timing)
    whole = GraphReplay("g", compiled=timing, kernels=(kernel,))
    bare = GraphReplay("g", compiled=Timing(2.0, 0.1, 5))
    found, _ = newest_replays([ReplayResult({}, (whole,), 1.0), ReplayResult({}, (bare,), 2.0)])
    assert found["g"] is whole
    newer = replace(whole, compiled=Timing(3.0, 0.1, 5))
    found, _ = newest_replays([ReplayResult({}, (whole,), 1.0), ReplayResult({}, (newer,), 2.0)])
    assert found["g"] is newer


def test_a_replay_that_disagrees_with_the_run_is_shown_as_it_was(softmax: Case) -> None:
    """On a busy machine the kernels took 12 us alone, and the graph that holds them 60 ms in the run."""
    (graph,) = softmax.graphs
    first, second = graph.launches
    launches = (replace(first, ms=0.009, measured=True), replace(second, ms=0.003, measured=True))
    assert shared_out(launches, 60.0) == launches == shared_out(launches, 0.001)
    slow = timed(softmax, 61.0, 2.0, 60.0, 0.012)
    ledger = make_ledger(slow)
    assert sum(parts(ledger)[name] for name in ("library kernels", "generated kernels")) == pytest.approx(
        0.012
    )
    assert ledger.unexplained_ms == pytest.approx(60.0 - 0.012 - 0.036)
    assert ledger.doubts == (
        "replayed alone the kernels take 12.0 us, in the run its graphs took 60.0 ms, and no wrapper takes "
        "the rest: memory that each call touches first, a busy machine, another clock, or other threads",
    )
    known = replace(slow, busy=("others",), threads=2, machine={"threads": 1})
    assert (
        make_ledger(known)
        .doubts[0]
        .endswith(": the machine was busy during the capture and the run had 2 threads and the replay 1")
    )
    (longer,) = make_ledger(timed(softmax, 0.044, 0.022, 0.030, 0.060)).doubts
    assert longer.startswith(
        "replayed alone the kernels take 60.0 us, in the run its graphs took 30.0 us with"
    )


def test_only_what_was_measured_in_the_run_is_called_so(softmax: Case) -> None:
    quiet = timed(softmax, 0.044, 0.022, 0.030, 0.020)
    hows = {part.part: part.how for part in make_ledger(quiet).parts}
    assert hows.pop(GUARDS) == "measured" and set(hows.values()) == {"estimated"}
    assert explain_case(quiet).quality == "estimated"
    assert explain_case(quiet).findings[0].measured  # what eager would save: two times of this run
    whole = explain_case(timed(softmax, 0.044, 0.040, 0.030, None))
    assert whole.quality == "measured" and {part.how for part in whole.ledger.parts} == {"measured"}
    first = whole.findings[0]
    assert first.rule == "host_bound" and "an estimated " in first.title and "an estimated " in whole.verdict
    # Calls of the captured run took twice as long: the difference of two runs is no measurement.
    apart = explain_case(replace(timed(softmax, 0.044, 0.040, 0.030, None), paired_ms=0.090))
    assert {part.part: part.how for part in apart.ledger.parts}[GUARDS] == "estimated"
    assert apart.quality == "estimated" and "90.0 us in the captured one" in apart.ledger.doubts[0]
    # Without a baseline both are of the captured run, and no other run is spoken of.
    case = replace(timed(softmax, 0.044, None, 0.030, None), paired_ms=0.090)
    alone = make_ledger(replace(case, times=replace(case.times, source="captured run")))
    assert alone.doubts[0].startswith("a call took 44.0 us, and 90.0 us in the calls that the times")
    assert not make_ledger(replace(case, graphs=())).doubts


def test_one_figure_for_the_hosts_share(softmax: Case) -> None:
    result = explain_case(timed(softmax, 0.0683, 0.0262, 0.0447, 0.0339))
    host = sum(part.ms for part in result.ledger.parts if part.part in (WITHIN_GRAPHS, GUARDS))
    assert host == pytest.approx(0.0344)
    assert "34.4 us of 68.3 us per call (50 %)" in result.findings[0].title
    assert "2 kernels launched a call, 33.9 us in all" in result.findings[0].evidence[0].text


@pytest.mark.parametrize(("count", "severity"), [(1, "low"), (2, "high")])
def test_one_recompile_is_what_dynamic_shapes_take_however_dear(
    softmax: Case, count: int, severity: str
) -> None:
    case = timed(softmax, 0.020, 0.070, 0.018, None)
    again = Event("recompile", "tensor 'x' size mismatch at index 0", "f", None, count)
    dear = replace(case, events=(again,), times=replace(case.times, recompile_ms=4000.0))
    (recompiles,) = (item for item in explain_case(dear).findings if item.rule == "recompiles")
    assert recompiles.severity == severity


def test_after_the_recompile_limit_calls_are_eager_calls(softmax: Case) -> None:
    case = timed(softmax, 0.5, 0.4, 0.030, None)
    limit = Event("cache_limit", "recompile_limit reached", "f", None)
    rare = replace(case, events=(limit,), graphs=(replace(case.graphs[0], runs=0.03),))
    result = explain_case(rare)
    assert parts(result.ledger) == {EAGER: 0.5} and result.ledger.unexplained_ms == 0.0
    assert rules(result)[0] == "recompiles" and "host_bound" not in rules(result)
    # What a call costs since is eager's, and no compiling that it would save.
    assert (result.findings[0].account, result.findings[0].cost_ms) == ("call", None)
    assert EAGER not in parts(explain_case(replace(case, events=(limit,))).ledger)


def test_calls_in_eager_are_not_what_a_slower_call_loses(softmax: Case) -> None:
    """A fifth of the calls of a program that compiling makes slower: they take less than the others."""
    limit = Event("cache_limit", "recompile_limit reached", "f", None)
    for eager_ms, in_eager, severity in ((0.4, 0.8, "medium"), (0.4, 0.3, "high"), (0.8, 0.8, "high")):
        case = timed(softmax, 0.6, eager_ms, 0.030, None)
        rare = replace(case, events=(limit,), graphs=(replace(case.graphs[0], runs=in_eager),))
        (told,) = (item for item in explain_case(rare).findings if item.rule == "recompiles")
        assert told.severity == severity, (eager_ms, in_eager)


@pytest.mark.parametrize(
    ("guards", "severity"),
    [
        (["tensor 'x' requires_grad mismatch. expected requires_grad=0"] * 3, "medium"),
        (["GLOBAL_STATE changed: grad_mode "] * 2, "medium"),
        (["tensor 'x' size mismatch at index 0. expected 16, actual 8"] * 3, "high"),
        (["tmd is None"], "low"),
        (["len(self._modules['convs']._modules) != 3"] * 4, "low"),
    ],
)
def test_a_graph_for_each_mode_stands_behind_what_calls_lose(
    softmax: Case, guards: list[str], severity: str
) -> None:
    case = timed(softmax, 3.0, 6.0, 2.95, 2.9)
    events = tuple(Event("recompile", f"0/{n}: {guard}", "f", None) for n, guard in enumerate(guards))
    dear = replace(case, events=events, times=replace(case.times, recompile_ms=60_000.0))
    (told,) = (item for item in explain_case(dear).findings if item.rule == "recompiles")
    assert told.severity == severity


def test_what_nobody_can_explain_comes_first(softmax: Case) -> None:
    """Library kernels that take longer than all of eager: the ConvMixer's other convolution."""
    case = timed(softmax, 5.7, 1.6, 5.6, None)
    (graph,) = case.graphs
    launches = tuple(
        replace(item, ms=5.3 if item.role == "library" else 0.2, measured=True) for item in graph.launches
    )
    result = explain_case(replace(case, graphs=(replace(graph, launches=launches),)))
    assert rules(result)[0] == "slower_than_eager" and result.findings[0].severity == "high"
    assert "library kernels alone take 5.30 ms, more than all of eager" in result.findings[0].title
    assert "healthy" not in rules(result)


def test_nothing_is_bounded_by_what_nobody_measured(softmax: Case) -> None:
    result = explain_case(timed(softmax, 3.0, 6.0, 2.95, None))
    assert "what bounds it was not measured" in result.verdict
    assert "bounded by" not in result.verdict
    assert "bounded by" in explain_case(timed(softmax, 3.0, 6.0, 2.95, 2.9)).verdict


def test_no_advice_is_to_measure_what_was_measured_already(softmax: Case) -> None:
    case = timed(softmax, 3.0, 3.6, 2.95, 2.9)

    def advised(**changes: object) -> str:
        times = replace(case.times, **{"outcome": "unknown", **changes})  # type: ignore[arg-type]
        found = explain_case(replace(case, times=times)).findings
        return next(finding.advice for finding in found if finding.rule == "nothing_found")

    assert advised(again=0.9).startswith("measure it again, while nothing else runs")
    assert advised().startswith("measure it again, with more calls")
    assert advised(eager_ms=None).startswith("measure it: inspector capture --baseline")


def test_a_few_microseconds_lost_are_the_hosts_whatever_the_split(softmax: Case) -> None:
    result = explain_case(timed(softmax, 0.065, 0.038, 0.063, 0.060))
    assert (result.findings[0].rule, result.findings[0].severity) == ("host_bound", "high")


def test_measured_guards_explain_a_loss_however_long_they_usually_take(softmax: Case) -> None:
    """On a slow machine guards and dispatch take several times what an estimate of them may be."""
    result = explain_case(timed(softmax, 0.176, 0.0488, 0.0944, None))
    first = result.findings[0]
    assert (first.rule, first.severity) == ("host_bound", "high")
    assert "81.6 us were measured in guards and dispatch, of which eager has none" in first.title
    assert first.claims[0].ms[0] == pytest.approx(0.0816)


def test_a_wrapper_that_cannot_be_read_is_not_called_empty(softmax: Case) -> None:
    case = timed(softmax, 0.044, 0.022, 0.030, None)
    (graph,) = case.graphs
    unread = replace(case, graphs=(replace(graph, launches=()),))
    result = explain_case(unread)
    assert "host_bound" not in rules(result)
    assert "could not be read" in result.findings[0].title
    assert any("cpp_wrapper" in text for text in result.ledger.missing)
    assert parts(result.ledger)[WHOLE_GRAPHS] == pytest.approx(0.030)


def test_the_machine_that_explains_counts_where_it_captured_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run.open(Path(__file__).parent.parent / "sample_runs" / "stories" / "ten_million" / "run.tar.xz")
    assert run.manifest is not None
    monkeypatch.setattr(Run, "manifest", replace(run.manifest, host="here"))
    here = Host("here", 8, {"OMP_NUM_THREADS": "1"})
    assert gather(run).host is None and gather(run, (), replace(here, name="elsewhere")).host is None
    assert gather(run, (), here).host == here
    serial = replace(gather(run, (), here), programs=())
    assert _setting(serial)[0] == "OMP_NUM_THREADS=1" and _available(serial) == 8
    assert _setting(replace(serial, host=None))[0] is None


def test_estimated_kernels_cost_no_more_than_the_call(softmax: Case) -> None:
    """Measured ones are left as they are: a replay may take longer than the call did."""
    (graph,) = softmax.graphs
    for measured, cost in ((False, 0.044), (True, 9.0)):
        launches = tuple(replace(launch, measured=measured) for launch in graph.launches)
        case = replace(
            timed(softmax, 0.044, 0.022, 0.030, 0.020), graphs=(replace(graph, launches=launches),)
        )
        assert case.within_call(9.0) == cost and case.within_call(0.01) == 0.01


def test_what_is_outside_of_graphs_is_of_the_calls_that_they_were_timed_in(softmax: Case) -> None:
    """13 of 13.1 ms were the graph's; that calls of another run took 21.7 makes 8.6 no guards."""
    case = replace(timed(softmax, 21.7, 30.0, 13.0, None), paired_ms=13.1)
    assert outside_graphs_ms(case) == pytest.approx(0.1)
    assert make_ledger(case).unexplained_ms == pytest.approx(8.6)
    same = replace(case, paired_ms=21.7)
    assert outside_graphs_ms(same) == pytest.approx(8.7)


def test_graphs_of_slowed_calls_have_no_time() -> None:
    """Debug output makes calls longer, and their graphs' times hold as long as they fit into a call."""
    assert slowed([(1.0, 328.0)], 7.0) and slowed([(2.0, 4.0), (1.0, None)], 7.0)
    assert not slowed([(1.0, 7.0)], 7.1) and not slowed([(0.1, 7.5)], 7.0) and not slowed([(1.0, None)], 7.0)
