"""Findings on results that nothing reads, on products in a slow order and on subnormal numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inspector.capture.recorder.subnormal import FIRST_RUN, Subnormals
from inspector.explain.case import Case
from inspector.explain.gather import gather
from inspector.explain.rules import contraction_order, subnormal_numbers, unread_results
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run

LAST = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[1024, 512]", arg1_1: "f32[512, 4000]"):
        # File: /home/user/score.py:8 in f, code: scores = x @ w
        mm: "f32[1024, 4000]" = torch.ops.aten.mm.default(arg0_1, arg1_1);  arg0_1 = arg1_1 = None
        view: "f32[8, 128, 4000]" = torch.ops.aten.view.default(mm, [8, 128, 4000]);  mm = None
        # File: /home/user/score.py:9 in f, code: return scores[:, -1].exp()
        select: "f32[8, 4000]" = torch.ops.aten.select.int(view, 1, -1);  view = None
        exp: "f32[8, 4000]" = torch.ops.aten.exp.default(select);  select = None
        return (exp,)
"""
GRADIENT = """
class GraphModule(torch.nn.Module):
    def forward(self, tangents_1: "f32[8, 4000]", primals_1: "f32[512, 1024]"):
        # File: /home/user/score.py:9 in f, code: return scores[:, -1]
        full: "f32[8, 128, 4000]" = torch.ops.aten.full.default([8, 128, 4000], 0)
        select_scatter: "f32[8, 128, 4000]" = torch.ops.aten.select_scatter.default(full, tangents_1, 1, -1)
        view: "f32[1024, 4000]" = torch.ops.aten.view.default(select_scatter, [1024, 4000])
        # File: /home/user/score.py:8 in f, code: scores = x @ w
        mm: "f32[512, 4000]" = torch.ops.aten.mm.default(primals_1, view)
        return (mm,)
"""
CHAIN = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[900, 900]", arg1_1: "f32[900, 900]", arg2_1: "f32[900, 1]"):
        # File: /home/user/chain.py:8 in f, code: return a @ b @ v
        mm: "f32[900, 900]" = torch.ops.aten.mm.default(arg0_1, arg1_1);  arg0_1 = arg1_1 = None
        mm_1: "f32[900, 1]" = torch.ops.aten.mm.default(mm, arg2_1);  mm = arg2_1 = None
        return (mm_1,)
"""


@pytest.fixture
def made(corpus: Path) -> Case:
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    return replace(case, costs=replace(case.costs, subnormal_times=90.0))


def with_graph(case: Case, text: str, *launches: tuple[str, float]) -> Case:
    """One graph with launches of these nodes and milliseconds, in a call that takes 20."""
    (own,) = case.graphs
    artifacts = replace(own.artifacts, fx_after=parse_fx_graph(text, "fx"))
    first = replace(own.launches[0], role="library", bytes=None, flops=None, measured=True)
    made = tuple(replace(first, fx=(name,), ms=ms) for name, ms in launches)
    graph = replace(own, artifacts=artifacts, launches=made, runs=1.0, hints={})
    return replace(case, graphs=(graph,), times=replace(case.times, compiled_ms=20.0))


def test_the_last_of_many_rows_is_read(made: Case) -> None:
    (finding,) = unread_results.find(with_graph(made, LAST, ("mm", 10.0)))
    assert "10.0 ms a call in mm computes what nothing reads but for one in 128" in finding.title
    assert [(item.path, item.line) for item in finding.evidence[:1]] == [("/home/user/score.py", 9)]
    assert finding.advice.startswith("take that part of what goes in")
    low, high = finding.claims[0].ms
    assert 0 < low < high == pytest.approx(10.0 * 127 / 128)


def test_a_gradient_of_zeros_is_multiplied(made: Case) -> None:
    (finding,) = unread_results.find(with_graph(made, GRADIENT, ("mm", 10.0)))
    assert "multiplies zeros but for one in 128" in finding.title
    assert finding.evidence[0].line == 9


def test_what_is_read_in_whole_and_what_costs_little_is_not_told(made: Case) -> None:
    assert not list(unread_results.find(with_graph(made, LAST.replace("exp,)", "exp, mm)"), ("mm", 10.0))))
    assert not list(unread_results.find(with_graph(made, LAST, ("mm", 0.1))))
    assert not list(unread_results.find(with_graph(made, LAST, ("exp", 10.0))))
    # No library computes one place of a Fourier transform, or of a sort.
    whole = LAST.replace("aten.mm.default(arg0_1, arg1_1)", "aten._fft_c2r.default(arg0_1, [1], 2, 4000)")
    assert not list(unread_results.find(with_graph(made, whole, ("mm", 10.0))))


def test_a_vector_is_multiplied_first(made: Case) -> None:
    (finding,) = contraction_order.find(with_graph(made, CHAIN, ("mm", 10.0), ("mm_1", 0.1)))
    assert "an order that takes 450 times the multiplications of another" in finding.title
    assert finding.advice == "multiply in this order: 900x900 with 900, then 900x900 with 900"
    assert sum(claim.ms[1] for claim in finding.claims) == pytest.approx(10.1 * (1 - 1 / 450.5), rel=1e-3)
    better = CHAIN.replace("(arg0_1, arg1_1)", "(arg1_1, arg2_1)").replace("(mm, arg2_1)", "(arg0_1, mm)")
    better = better.replace('mm: "f32[900, 900]"', 'mm: "f32[900, 1]"')
    assert not list(contraction_order.find(with_graph(made, better, ("mm", 10.0), ("mm_1", 10.0))))


def test_subnormal_numbers_are_counted_after_some_runs() -> None:
    state = torch.ones(2000)
    state[:500] = 1e-40
    seen = Subnormals()
    for number in range(1, FIRST_RUN + 1):
        assert not seen.shares, number
        seen.look([state, state.long(), torch.zeros(2000), 3, state[:10], state.view(2, -1).t()])
    assert seen.as_json() == {"0": 0.25}
    state.zero_()
    seen.look([state])
    assert seen.as_json() == {"0": 0.25}, "the next look is at twice as many runs"
    for _ in range(FIRST_RUN):
        seen.look([state])
    assert seen.as_json() == {}


def test_products_of_what_is_made_of_subnormal_numbers_are_claimed_where_they_are_slow(made: Case) -> None:
    text = CHAIN.replace('arg0_1: "f32', 'arg9_1: "f32[900, 900]", arg0_1: "f32').replace(
        "mm_1:", 'exp: "f32[900, 1]" = torch.ops.aten.exp.default(mm)\n        mm_1:'
    ).replace("default(mm, arg2_1)", "default(arg9_1, exp)")  # fmt: skip
    case = with_graph(made, text, ("mm", 0.01), ("mm_1", 10.0))
    (graph,) = case.graphs
    first, second = graph.launches
    small = replace(graph, subnormal={"arg0_1": 0.005}, launches=(first, replace(second, bytes=10**6)))
    (finding,) = subnormal_numbers.find(replace(case, graphs=(small,)))
    assert "10.0 ms, of values made of such numbers" in finding.evidence[0].text
    low, high = finding.claims[0].ms
    assert 4.0 < low <= high / 2 < 5.1
    guessed = replace(small, launches=(first, replace(small.launches[1], measured=False)))
    (finding,) = subnormal_numbers.find(replace(case, graphs=(guessed,)))
    assert len(finding.claims) == 1, "of what reads them alone"


def test_what_reads_subnormal_numbers_is_claimed(made: Case) -> None:
    case = with_graph(made, LAST, ("mm", 10.0), ("exp", 1.0))
    (graph,) = case.graphs
    small = replace(case, graphs=(replace(graph, subnormal={"arg0_1": 0.4, "arg1_1": 0.0001}),))
    (finding,) = subnormal_numbers.find(small)
    assert "40 % of an input of 1024x512 are subnormal numbers" in finding.title
    assert len(finding.claims) == 1, "exp reads no input"
    # A product that takes far longer than its arithmetic surely waits for them: 41.8 -> 30.6 ms a step of a
    # denoiser, whose one such product took 10.0.
    for measured, part in ((True, 0.4), (False, 0.4), (True, 0.005)):
        launches = tuple(replace(item, bytes=10**6, measured=measured) for item in graph.launches)
        slow = replace(graph, subnormal={"arg0_1": part}, launches=launches)
        (slowed,) = subnormal_numbers.find(replace(case, graphs=(slow,)))
        low, high = slowed.claims[0].ms
        assert low == (high / 2 if measured and part > 0.01 else 0.0) and high > 8.0
    assert finding.trial is not None and finding.trial.label == "set_flush_denormal=True"
    slower = replace(small.graphs[0], in_process_ms=60.0, quickest_ms=4.0)
    (finding,) = subnormal_numbers.find(replace(small, graphs=(slower,)))
    assert finding.title.endswith("half of its runs took 60.0 ms and more, the quickest 4.00 ms")
    assert sum(claim.ms[1] for claim in finding.claims) == pytest.approx(56.0)
    assert "this CPU multiplies 90 times as slowly" in finding.title
    # What several graphs read has one cause.
    (graph_of_it,) = small.graphs
    two = (replace(graph_of_it, runs=3.0), graph_of_it)
    (both,) = subnormal_numbers.find(replace(small, graphs=two))
    assert len(both.claims) == 2 and both.claims[0].ms[1] == pytest.approx(3 * both.claims[1].ms[1])
    assert "an estimated 40.0 ms a call" in both.title
    assert [item.line for item in both.evidence[::2]] == [both.evidence[0].line] * 2
    unmeasured = replace(small, costs=replace(small.costs, subnormal_times=None))
    (finding,) = subnormal_numbers.find(unmeasured)
    assert finding.claims[0].ms[0] == 0.0 and "some CPUs" in finding.title
    quick = replace(small, costs=replace(small.costs, subnormal_times=1.02))
    assert not list(subnormal_numbers.find(quick)), "an AMD EPYC takes no longer for them"
    taught = replace(case, graphs=(replace(graph, subnormal={"primals_1": 0.4}),))
    assert not list(subnormal_numbers.find(taught)), "which this graph has not"
    few = replace(case, graphs=(replace(graph, subnormal={"arg0_1": 0.0001}),))
    assert not list(subnormal_numbers.find(few))
    assert not list(subnormal_numbers.find(case))
