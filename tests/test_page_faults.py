"""Memory that a compiled call fetches anew: counted in calls, its cost measured, and claimed where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from explaining import bare

from inspector.capture.recorder.journal import Entry
from inspector.explain.case import Case
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.in_vain import saved_bytes
from inspector.explain.rules import page_faults
from inspector.explain.times import Times
from inspector.hardware.page_faults import fault_us
from inspector.model.calls import Event, Outcome, ProcessCalls
from inspector.model.run import Manifest
from inspector.model.state import ProcessState
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.manifest import parse_manifest
from inspector.readers.record import parse_record
from inspector.readers.run import Run


def case(
    faults: float | None,
    eager: float | None,
    outcome: Outcome = "slower",
    environment: Mapping[str, str] | None = None,
) -> Case:
    """A call of 6 ms and 4 in eager, where a fault costs 0.5 to 1 us."""
    times = Times(6.0, 4.0, calls=100, steady_calls=90, outcome=outcome, faults=faults, eager_faults=eager)
    told = bare(times)
    manifest = Manifest(("python",), "done", 0, 0.0, 1.0, page_fault_us=(0.5, 1.0))
    calls = (ProcessCalls(1, None, state=ProcessState((), environment or {})),)
    return replace(told, facts=replace(told.facts, manifest=manifest, calls=calls))


def test_faults_that_eager_has_too_cost_nothing_more() -> None:
    assert not list(page_faults.find(case(3000, 3000)))
    assert not list(page_faults.find(case(0, 3000)))
    assert not list(page_faults.find(case(None, 0))) and not list(page_faults.find(case(3000, None)))
    # Since the limit of compiling again steady calls are eager's own.
    limit = Event("cache_limit", "recompile_limit reached", "f", None)
    told = replace(case(3000, 0), events=(limit,))
    eager = replace(told, graphs=tuple(replace(graph, runs=0.0) for graph in told.graphs))
    assert list(page_faults.find(case(3000, 0))) and not list(page_faults.find(eager))


def test_the_difference_is_claimed_at_its_measured_cost() -> None:
    (finding,) = page_faults.find(case(3000, 1000))
    (claim,) = finding.claims
    assert claim.ms == pytest.approx((1.0, 2.0)) and claim.over == "eager" and finding.cost_ms == claim.ms[0]
    assert finding.title.startswith("3,000 page faults a call, 1,000 in eager:")
    # Of a call that is no slower it is what could be gained.
    (finding,) = page_faults.find(case(3000, 1000, "faster"))
    assert finding.claims[0].over == "least"


def test_faults_that_eager_has_too_could_be_gained_where_a_call_is_no_slower() -> None:
    (finding,) = page_faults.find(case(3000, 9000, "faster"))
    (claim,) = finding.claims
    assert claim.ms == pytest.approx((1.5, 3.0)) and claim.over == "least"
    assert not list(page_faults.find(case(300, 9000, "faster"))), "0.15 of 6 ms"


def test_faults_by_activations_that_are_saved_in_vain_are_left_to_their_cause(corpus: Path) -> None:
    told = case(3000, 3000, "faster")
    fx = parse_fx_graph(SAVED, "fx")
    (own,) = gather(Run.open(corpus / "cpu-torch2.13" / "softmax")).graphs
    forward = replace(own, artifacts=replace(own.artifacts, fx_after=fx, phase="forward"), runs=1.0)
    assert saved_bytes(forward) == 2000 * 4096
    (finding,) = page_faults.find(replace(told, graphs=(forward,)))
    assert finding.claims[0].ms == pytest.approx((0.5, 1.0))
    backward = replace(forward, artifacts=replace(forward.artifacts, phase="backward"))
    (finding,) = page_faults.find(replace(told, graphs=(forward, backward)))
    assert finding.claims[0].ms == pytest.approx((1.5, 3.0))


SAVED = """
class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[2000, 1024]"):
        exp: "f32[2000, 1024]" = torch.ops.aten.exp.default(primals_1)
        sum_1: "f32[]" = torch.ops.aten.sum.default(exp)
        return (sum_1, primals_1, exp)
"""


def test_faults_that_another_run_of_it_had_not_may_not_come_again() -> None:
    told = case(3000, 1000)
    for captured, least in ((2000, 0.5), (900, 0.0), (5000, 1.0)):
        (finding,) = page_faults.find(replace(told, times=replace(told.times, captured_faults=captured)))
        assert finding.claims[0].ms == pytest.approx((least, 2.0))
        assert (f"({captured:,} in the captured run)" in finding.title) == (captured < 3000)


def test_what_keeps_memory_already_is_not_advised() -> None:
    (finding,) = page_faults.find(case(3000, 0))
    assert finding.trial == page_faults.KEPT_MEMORY and "MALLOC_TRIM_THRESHOLD_" in finding.advice
    for environment in ({"MALLOC_TRIM_THRESHOLD_": "1000"}, {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}):
        (finding,) = page_faults.find(case(3000, 0, environment=environment))
        assert finding.trial is None and "MALLOC" not in finding.advice
    (finding,) = page_faults.find(case(3000, 0, environment={"LD_PRELOAD": "libiomp5.so"}))
    assert finding.trial is not None


def test_a_few_faults_are_not_worth_a_word() -> None:
    said = [finding.rule for finding in explain_case(case(20, 0)).findings]
    assert "page_faults" not in said
    said = [finding.rule for finding in explain_case(case(3000, 0)).findings]
    assert "page_faults" in said


def test_faults_of_calls_are_read_back() -> None:
    entry = Entry("f", None, 0)
    for faults in (9000, 7, 5, 6):
        entry.add(1.0, cold=False, faults=faults)
    assert list(entry.steady_faults) == [7, 5, 6]
    text = json.dumps({"kind": "calls", "callables": [entry.as_json()]})
    calls = parse_record(text, "rank0.jsonl").calls
    assert calls is not None and calls.callables[0].steady_faults == (7, 5, 6)


def test_threads_that_fault_at_once_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What two take together by the clock is the cost of one: they share the pages, and the kernel's lock."""
    monkeypatch.setattr("inspector.hardware.page_faults.usable_cpus", lambda: 2)
    monkeypatch.setattr("inspector.hardware.page_faults._cost", lambda size, threads: 1e-6 / threads)
    assert fault_us() == pytest.approx((0.5, 1.0))


def test_a_page_fault_has_a_cost_here() -> None:
    cost = fault_us()
    assert cost is None or 0 < cost[0] <= cost[1]


def test_a_manifest_of_any_version_is_read() -> None:
    for text, expected, problems in (
        ("", (), 0),
        (', "page_fault_us": [0.5, 1]', (0.5, 1.0), 0),
        (', "page_fault_us": [1, 0.5]', (), 1),
        (', "page_fault_us": "1"', (), 1),
        (', "page_fault_us": [true, null]', (), 1),
    ):
        manifest, said = parse_manifest(
            '{"schema": "inspector.run/1", "command": [], "status": "done"' + text + "}", "inspector.json"
        )
        assert manifest is not None and manifest.page_fault_us == expected and len(said) == problems
