"""Which blocks compiled code surely lost, by which kernels, and what nothing may be said of: each with a
neighbour that has what the judged one has not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from explaining import bare

from inspector.analysis.two_sides import same_operator_other_kernel, slower_blocks, two_sided_ledger
from inspector.explain import engine
from inspector.explain.block_words import change
from inspector.explain.case import CUDA_GRAPHS, Case
from inspector.explain.claims import on_block, on_part
from inspector.explain.cpp_loops import DIVISION, LoopNest, loop_nests
from inspector.explain.doubts import profile_doubts
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.in_vain import PADDED
from inspector.explain.launches import busiest_line
from inspector.explain.least import Machine, achieved
from inspector.explain.program import read_program
from inspector.explain.rule import rank
from inspector.explain.rules import (
    cpu_not_vectorized,
    decomposition_slower,
    fallback_kernels,
    host_bound,
    layout_copies,
    library_conversions,
    library_kernel_differs,
    page_faults,
    planned_anew,
    random_numbers,
    recomputed,
    slower_than_eager,
    unfused_traffic,
)
from inspector.explain.times import NewSizes, Times
from inspector.explain.whole_operators import Slower
from inspector.model.account import HOST, Account, Part
from inspector.model.calls import Outcome
from inspector.model.code import Kernel, SourceNodes
from inspector.model.explain import Finding, Trial
from inspector.model.fusion import Missed
from inspector.model.peaks import Peaks
from inspector.model.run import Manifest
from inspector.model.schedule import Buffer, Layout, LoopBody, SchedulerNode
from inspector.model.source import LineSpan, SourceLocation
from inspector.model.two_sides import Block, HostOperator, Joined, KernelTime, Sides, SideTotals
from inspector.model.waste import WholeOperator
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run


def kernels(*items: tuple[str, float], generated: bool = False) -> tuple[KernelTime, ...]:
    return tuple(KernelTime(name, 1.0, ms, generated) for name, ms in items)


def block(
    eager: Sequence[tuple[str, float]],
    compiled: Sequence[tuple[str, float]],
    line: int = 1,
    operator: str = "f",
) -> Block:
    before, after = sum(ms for _, ms in eager), sum(ms for _, ms in compiled)
    place = (SourceLocation("model.py", line),)
    return Block(place, (), (operator,), "forward", "g", before, after, kernels(*eager), kernels(*compiled))


def side(wall: float, work: float, device: bool = False, host: float = 0.0) -> SideTotals:
    parts = (("Python between operators", host),) if host else ()
    return SideTotals(5, device, wall, work, work, marked=True, host=parts)


def case(
    blocks: Sequence[Block],
    eager: SideTotals | None,
    compiled: SideTotals,
    eager_ms: float,
    compiled_ms: float,
) -> Case:
    joined = Joined(tuple(blocks), eager, compiled)
    outcome: Outcome = "slower" if compiled_ms > 1.05 * eager_ms else "faster"
    times = Times(compiled_ms=compiled_ms, eager_ms=eager_ms, calls=100, steady_calls=90, outcome=outcome)
    return replace(bare(times), sides=Sides(joined, two_sided_ledger(joined, eager_ms, compiled_ms)))


def test_a_profile_of_slower_calls_makes_no_block_lose() -> None:
    """The profiled calls took 1.5 times what calls take: one block really lost, not its neighbour."""
    lost, even = block([("a", 2.0)], [("a", 9.0)], 1), block([("b", 4.0)], [("b", 6.0)], 2)
    told = case([lost, even], side(9.0, 6.0), side(15.0, 15.0), 9.0, 10.0)
    assert [number for number, _ in told.slower] == [0]
    (finding,) = slower_than_eager.find(told)
    # All of the 5 ms that they took longer may have been its own.
    assert finding.claims[0].ms == pytest.approx((7.0 - 5.0, 7.0))
    assert [number for number, _ in replace(told, times=replace(told.times, compiled_ms=15.0)).slower] == [
        0,
        1,
    ]
    # What eager's calls took longer, too, need not have been for the same reason.
    alike = replace(told, sides=case([lost, even], side(14.0, 6.0), side(15.0, 15.0), 9.0, 10.0).sides)
    assert next(iter(slower_than_eager.find(alike))).claims[0].ms == finding.claims[0].ms
    # A GPU's kernels are not slower for a host that profiling slows.
    gpu = Joined((lost, even), side(9.0, 6.0, True), side(15.0, 9.5, True))
    assert len(slower_blocks(gpu, 10.0)) == 2


def test_copies_into_another_layout_in_front_of_a_convolution_are_a_layout_optimisation() -> None:
    """A backward of 0.8 ms that copied for 0.5 ms: without that optimisation a call took 5.1 ms for 7.0."""

    def found(compiled: list[tuple[str, float]], operator: str = "conv2d") -> list[Finding]:
        lost = block([("aten::convolution_backward", 2.0)], compiled, operator=operator)
        return list(library_kernel_differs.find(case([lost], side(9.0, 9.0), side(9.0, 9.0), 9.0, 9.0)))

    (finding,) = found([("aten::convolution_backward", 2.0), ("aten::copy_", 1.0)])
    assert "copies what it is handed into another layout: 1.00 ms" in finding.title
    assert finding.trial == Trial(config=(("layout_optimization", False),))
    assert not found([("aten::convolution_backward", 2.9), ("aten::copy_", 0.1)])
    assert not found([("aten::convolution_backward", 2.0), ("aten::copy_", 1.0)], "matmul")


def test_what_eager_did_in_no_graph_may_have_been_the_blocks_work() -> None:
    """A scan's backward of which 13 of 1260 kernels were put into the graph on eager's side."""
    lost = block([("a", 0.3)], [("a", 7.3)])
    stray = replace(block([("b", 9.0)], [], operator="MulBackward0"), place="outside", lines=())
    told = case([lost, stray], side(50.0, 9.3, True), side(40.0, 7.3, True), 50.0, 40.0)
    assert told.slower == ()
    both = replace(stray, compiled_ms=8.8)
    elsewhere = (replace(stray, phase="backward"), replace(stray, inside=False), both)
    for other in elsewhere:
        assert case([lost, other], side(50.0, 9.3, True), side(40.0, 7.3, True), 50.0, 40.0).slower


def test_what_order_left_open_may_be_what_eager_did_for_a_block() -> None:
    """25 products of a backward beside a block whose operators eager's order left open, these among them: no
    product was found on eager's side, and 26.9 ms in the other."""
    lost = block([], [("mm", 6.0)], operator="linear")
    whole = replace(block([("mul", 26.9)], [("k", 0.8)]), operators=("relu", "linear", "sub"), sure=False)
    sides = side(40.0, 30.0), side(20.0, 10.0)
    assert not case([lost, whole], *sides, 40.0, 20.0).slower
    others = (
        replace(whole, sure=True),
        replace(whole, operators=("relu", "sub")),
        replace(whole, phase="backward"),
        replace(whole, graph="other"),
        replace(whole, eager_ms=0.8),
    )
    for other in others:
        assert [number for number, _ in case([lost, other], *sides, 40.0, 20.0).slower] == [0]


def test_a_block_loses_no_more_than_the_call_and_what_the_others_won() -> None:
    """Nothing else ran in other calls than in eager's: a kernel that took longer as it was profiled did so
    for no reason of the program's."""
    lost, other = block([("a", 4.0)], [("a", 6.0)], 1), block([("b", 6.0)], [("b", 6.0)], 2)
    assert case([lost, other], side(10.0, 10.0), side(12.0, 12.0), 10.0, 11.9).slower
    assert case([lost, other], side(10.0, 10.0), side(10.2, 12.0, True), 10.0, 10.1).slower == ()
    won = block([("b", 6.0)], [("b", 4.0)], 2)
    assert case([lost, won], side(10.0, 10.0), side(10.2, 10.0, True), 10.0, 10.1).slower == ((0, lost),)


def test_which_nested_operator_takes_longest_is_no_other_kernel() -> None:
    nested = block([("lu_factor", 3.0), ("solve_ex", 2.0)], [("solve_ex", 6.0), ("lu_factor", 5.0)])
    other = block([("flash", 1.0), ("gemm", 2.0)], [("softmax", 6.0), ("gemm", 2.0)])
    other = replace(other, eager_kernels=kernels(("flash", 1.0)), compiled_kernels=kernels(("softmax", 6.0)))
    copied = block([("direct_copy", 1.0)], [("memcpy: Memcpy DtoD", 6.0)])
    assert [same_operator_other_kernel(item) for item in (nested, other, copied)] == [False, True, False]
    assert change(nested) == "the same library kernel" and change(other) == "another library kernel"


def test_one_cause_in_several_blocks_is_one_finding() -> None:
    alike = [block([("flash", 1.0)], [("softmax", 5.0 - line)], line) for line in (1, 2)]
    apart = block([("conv", 1.0)], [("gemm", 4.0)], 3, operator="conv2d")
    told = case([*alike, apart], side(10.0, 3.0), side(11.0, 11.0), 10.0, 11.0)
    first, second = library_kernel_differs.find(told)
    assert [claim.block for claim in first.claims] == [
        0,
        1,
    ] and "2.00 ms more in 1 block like it" in first.title
    assert [claim.block for claim in second.claims] == [2]


def test_the_same_fallback_is_no_more_work_than_in_eager(softmax_fallback: Case) -> None:
    same = block([("aten::cummin", 1.0)], [("aten::cummin", 3.0)])
    more = block([("aten::cummin", 1.0)], [("aten::cummin", 1.0), ("aten::clone", 2.0)])
    graph = softmax_fallback.graphs[0]
    place = ((graph.name, graph.launches[0].call.index),)
    said: list[Finding] = []
    for item in (same, more):
        item = replace(item, launches=place, graph=graph.name)
        told = case([item], side(4.0, 1.0), side(3.0, 3.0), 4.0, 3.2)
        said += fallback_kernels.find(replace(told, graphs=softmax_fallback.graphs))
    assert [finding.cost_ms for finding in said] == [None, 2.0]
    assert ["and more work" in finding.title for finding in said] == [False, True]


@pytest.fixture
def softmax_fallback(corpus: Path) -> Case:
    """Its only launch taken for an operator that Inductor has no code for, profiled at 3 ms."""
    found = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = found.graphs
    launch = replace(graph.launches[0], role="fallback", ms=3.0, measured=True, profiled_ms=3.0)
    return replace(found, graphs=(replace(graph, launches=(launch,), runs=1.0),))


def test_the_same_kernel_with_another_beside_it_is_not_the_same() -> None:
    """cuBLAS splits a product without its bias in two kernels."""
    split = block([("gemm", 1.0)], [("gemm", 1.1), ("gemm_split_k", 0.9)])
    assert change(split) == "the same library kernel, and 900 us in others that eager does not run"
    assert change(block([("gemm", 1.0)], [("gemm", 1.9), ("fill", 0.1)])) == "the same library kernel"


def test_a_gradient_in_pieces_loses_against_atens_own() -> None:
    """Of a block with batch norm in it only what the gradient's kernels took more is claimed."""
    name = "void at::native::(anonymous namespace)::upsample_bilinear2d_backward_out_frame<float>(int)"
    whole, norm = KernelTime(name, 1.0, 1.0), KernelTime("batch_norm_backward", 1.0, 1.0)
    pieces = KernelTime("triton_poi_fused__unsafe_index_put_mul_1", 1.0, 4.0, generated=True)
    place = (SourceLocation("model.py", 3),)
    operators = ("batch_norm", "interpolate")
    lost = Block(place, (), operators, "backward", "g", 2.0, 7.0, (whole, norm), (pieces,))
    told = case([lost], side(9.0, 9.0, True), side(14.0, 14.0, True), 9.0, 14.0)
    (finding,) = decomposition_slower.find(told)
    assert "ATen's own takes 1.00 ms in eager" in finding.title and finding.cost_ms == pytest.approx(3.0)
    assert "torch.ops.aten.upsample_bilinear2d_backward" in finding.advice
    assert [claim.ms for claim in finding.claims] == [pytest.approx((3.0, 3.0))]
    own = replace(pieces, name="triton_poi_fused_mul_1")
    others = (
        replace(lost, phase="forward"),
        replace(lost, operators=("batch_norm",)),
        replace(lost, compiled_kernels=(own,)),
        replace(lost, compiled_kernels=(pieces, whole)),
        replace(lost, compiled_kernels=(replace(pieces, ms=1.1), replace(own, ms=5.9))),
    )
    for neighbour in others:
        told = case([neighbour], side(9.0, 9.0, True), side(14.0, 14.0, True), 9.0, 14.0)
        assert not list(decomposition_slower.find(told))


def test_what_a_library_plans_in_each_call_is_claimed_of_the_host(softmax_fallback: Case) -> None:
    """8 times 7 ms in profiled calls that are 1.25 times as long as others; a neighbour is no attention."""
    attention = HostOperator("aten::_cudnn_attention_forward", 56.0, 8.0)
    work = block([("a", 1.0)], [("a", 1.0)])
    sides = [replace(side(61.0, 1.0, True, host=60.0), operators=(attention,)) for _ in "ec"]
    told = case([work], sides[0], sides[1], 49.0, 49.0)
    (finding,) = planned_anew.find(told)
    assert finding.severity == "high" and finding.claims[0].part == HOST
    assert finding.cost_ms == pytest.approx(56.0 * 48 / 60 - 8 * told.costs.launch_ms)
    assert "5.60 ms in aten::_cudnn_attention_forward each time, 8 times a call" in finding.title
    assert "in eager 7.00 ms each" in finding.title and finding.trial is not None
    mine = read_program("with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):\n    step()\n", "mine.py")
    (own,) = planned_anew.find(replace(told, programs=(mine,)))
    assert own.trial is None and "enable_cudnn_sdp" not in own.advice
    other = replace(sides[1], operators=(replace(attention, name="aten::topk"),))
    neighbour = replace(case([work], sides[0], other, 49.0, 49.0), graphs=softmax_fallback.graphs)
    assert not list(planned_anew.find(neighbour))
    # The host that something else keeps is not `host_bound`; what it is in is named.
    assert not list(host_bound.find(replace(told, graphs=softmax_fallback.graphs)))
    slower = case([work], side(4.0, 1.0, True, host=1.0), replace(other, host=other.host), 4.0, 49.0)
    (bound,) = host_bound.find(replace(slower, graphs=softmax_fallback.graphs))
    assert "; 44.8 ms in aten::topk itself, 8 times 5.60 ms" in bound.title
    # A kernel of Inductor's that was slow to launch is no operator.
    launch = replace(other, host=other.host, operators=(replace(attention, name="triton_poi_fused_add_0"),))
    slower = case([work], side(4.0, 1.0, True, host=1.0), launch, 4.0, 49.0)
    (bound,) = host_bound.find(replace(slower, graphs=softmax_fallback.graphs))
    assert "itself" not in bound.title
    # With its plan at hand it may take longer than a launch, too.
    for ms in (0.3, 8 * 0.2):
        quick = replace(sides[1], operators=(replace(attention, ms=ms),))
        assert not list(planned_anew.find(case([work], sides[0], quick, 49.0, 49.0)))


def test_operators_that_are_called_one_by_one_are_what_the_host_is_at(softmax_fallback: Case) -> None:
    """Eleven of twelve launches are operators that Inductor has no code for."""
    told = case([block([("a", 1.0)], [("a", 1.0)])], side(2.0, 1.0), side(6.0, 1.0, host=5.0), 2.0, 6.0)
    (graph,) = softmax_fallback.graphs
    name = "torch.ops.aten.median.dim"
    own = replace(graph.launches[0], role="fallback", call=replace(graph.launches[0].call, kernel=name))
    for count, said in ((11, True), (0, False)):
        many = replace(graph, launches=(replace(own, role="generated"), *[own] * count), runs=1.0)
        (bound,) = host_bound.find(replace(told, graphs=(many,)))
        assert ("write aten.median.dim with operators that Inductor has code for" in bound.advice) == said
        assert ("11 of them operators that run as in eager" in bound.evidence[-1].text) == said


def test_kernels_of_which_the_host_is_late_may_save_nothing(softmax_fallback: Case) -> None:
    """The device waits for 48 of 49 ms: what a shorter kernel saves is no more than may be; what eager does
    in less time it does."""
    work = block([("a", 1.0)], [("a", 1.0)])
    waiting = case([work], side(61.0, 1.0, True, host=60.0), side(61.0, 1.0, True, host=60.0), 49.0, 49.0)
    busy = case([work], side(50.0, 45.0, True, host=4.0), side(50.0, 45.0, True, host=4.0), 49.0, 49.0)
    assert engine._behind_the_host(waiting) and not engine._behind_the_host(busy)
    (graph,) = softmax_fallback.graphs
    recorded = replace(graph, gpu=True, config={CUDA_GRAPHS: "True"})
    assert recorded.cuda_graphs and not engine._behind_the_host(replace(waiting, graphs=(recorded,)))
    claims = (
        on_block(0, (0.4, 0.8), "profiled", "least"),
        on_block(0, 0.3, "profiled"),
        on_part(HOST, 2.0, "profiled"),
    )
    told = engine._maybe(Finding("x", "high", "", None, 1.2, (), "", claims=claims))
    assert [claim.ms for claim in told.claims] == [(0.0, 0.8), (0.3, 0.3), (2.0, 2.0)]


def test_a_convolutions_plan_is_made_anew_where_most_sizes_are_new() -> None:
    """74 times 1 ms; where sizes come again the plan is kept, and a CUDA graph may be."""
    convolution = HostOperator("aten::cudnn_convolution", 74.0, 74.0)
    sides = [replace(side(100.0, 2.0, True, host=97.0), operators=(convolution,)) for _ in "ec"]
    told = case([block([("a", 1.0)], [("a", 1.0)])], sides[0], sides[1], 99.0, 99.0)
    new = replace(told, times=replace(told.times, new_sizes=NewSizes(46, 49)))
    (finding,) = planned_anew.find(new)
    assert finding.trial is None and "pad its inputs to a few sizes" in finding.advice
    assert finding.title.endswith("cuDNN plans convolutions anew for each new shape")
    for known in (None, NewSizes(4, 49, 95.0, 94.0, 4.0)):
        assert not list(planned_anew.find(replace(told, times=replace(told.times, new_sizes=known))))


def test_plans_that_are_used_again_are_what_the_run_pays_once() -> None:
    """The profiled calls are of those whose sizes are new: 60 ms each, of 3 ms later on."""
    attention = HostOperator("aten::_cudnn_attention_forward", 54.0, 12.0)
    sides = [replace(side(60.0, 0.5, True, host=59.0), operators=(attention,)) for _ in "ec"]
    told = case([block([("a", 0.5)], [("a", 0.5)])], sides[0], sides[1], 5.0, 3.0)
    new = NewSizes(48, 189, 50.0, 3.0, 48 * 47.0, slow=True)
    (finding,) = planned_anew.find(replace(told, times=replace(told.times, new_sizes=new)))
    assert finding.account == "run" and finding.cost_ms == pytest.approx(48 * 47.0 * 0.9)
    assert (
        "48 calls of 189" in finding.title
        and "50.0 ms where later ones with the same take 3.00" in finding.title
    )
    # Without a profile of such calls no more is known than that cuDNN does so, and what plans take at least.
    for plans, sure, severity in ((0, 0.0, "low"), (4, 48 * 20.0, "high"), (12, 48 * 47.0, "high")):
        unprofiled = planned_anew._first_calls(told, new, [], plans)
        assert "that was not profiled; cuDNN" in unprofiled.title and unprofiled.how == "estimated"
        assert [claim.ms for claim in unprofiled.claims] == [pytest.approx((sure, 48 * 47.0))]
        assert unprofiled.severity == severity
    # Beside compiling it is little, and compiling is paid once.
    long = replace(told, times=replace(told.times, cold_ms=60_000.0))
    dear = planned_anew._first_calls(long, new, [], 12)
    assert dear.severity == "high" and dear.share is not None and dear.share < 0.04
    alike = replace(new, slow=False)
    assert not list(planned_anew.find(replace(told, times=replace(told.times, new_sizes=alike))))


def test_what_of_eager_has_no_name_may_have_been_its_host(softmax_fallback: Case) -> None:
    """3 ms more at the host, as far as named; 2 ms of eager's call have no name: 1 ms is sure."""
    work = block([("a", 1.0)], [("a", 1.0)])
    told = case([work], side(4.0, 1.0, host=1.0), side(5.0, 1.0, host=4.0), 4.0, 5.0)
    (finding,) = host_bound.find(replace(told, graphs=softmax_fallback.graphs))
    assert "1.00 to 3.00 ms more than in eager" in finding.title
    assert finding.claims[0].ms == pytest.approx((1.0, 3.0))
    both = case([work], side(4.0, 1.0, host=1.0), side(7.0, 1.0, host=4.0), 4.0, 7.0)
    (finding,) = host_bound.find(replace(both, graphs=softmax_fallback.graphs))
    assert finding.claims[0].ms == pytest.approx((3.0, 3.0)) and finding.severity == "high"
    little = case([work], side(4.0, 1.0, host=3.0), side(4.3, 1.0, host=3.3), 4.0, 4.3)
    (finding,) = host_bound.find(replace(little, graphs=softmax_fallback.graphs))
    assert finding.severity == "medium"
    named = case([work], side(2.0, 1.0, host=1.0), side(5.0, 1.0, host=4.0), 2.0, 5.0)
    (finding,) = host_bound.find(replace(named, graphs=softmax_fallback.graphs))
    assert ", 3.00 ms more than in eager" in finding.title
    slowed = block([("a", 3.0)], [("a", 1.0)])
    unknown = case([slowed], side(3.5, 3.0, host=0.5), side(5.0, 1.0, host=4.0), 2.0, 5.0)
    (finding,) = host_bound.find(replace(unknown, graphs=softmax_fallback.graphs))
    assert "(80 %), at least 2.00 ms more than all of eager" in finding.title
    assert finding.claims[0].ms == pytest.approx((2.0, 3.0)) and not finding.claims[0].part
    only = case([work], None, side(5.0, 1.0, host=4.0), 2.0, 5.0)
    (finding,) = host_bound.find(replace(only, graphs=softmax_fallback.graphs))
    assert "of 5.00 ms per call (80 %), at least 2.00 ms more than all of eager" in finding.title
    assert finding.claims[0].ms == pytest.approx((2.0, 3.0)) and not finding.claims[0].part
    faster = case([work], None, side(5.0, 1.0, host=4.0), 9.0, 5.0)
    (finding,) = host_bound.find(replace(faster, graphs=softmax_fallback.graphs))
    assert "of 5.00 ms per call (80 %)" in finding.title and "eager" not in finding.title


def test_work_that_nobody_saw_is_not_blamed_for_profiled_calls_that_were_shorter() -> None:
    work = block([("a", 9.0)], [("a", 9.0)])
    shorter = case([work], side(9.5, 9.0), side(9.5, 9.0), 20.0, 20.0)
    asleep = case([work], side(20.0, 9.0), side(20.0, 9.0), 20.0, 20.0)
    assert "another clock" in next(profile_doubts(shorter, 11.0))
    assert "a sleep" in next(profile_doubts(asleep, 11.0))


def test_only_the_profile_is_void_of_a_machine_that_was_busy_while_profiling() -> None:
    quiet = case([block([("a", 1.0)], [("a", 9.0)])], side(3.0, 1.0), side(10.0, 9.0), 3.0, 10.0)
    during = explain_case(replace(quiet, profile_busy=("no core for 44 % of the time",)))
    assert "machine_busy" not in [finding.rule for finding in during.findings]
    assert any("while it was profiled" in remark for remark in during.remarks)
    whole = explain_case(replace(quiet, busy=("no core for 44 % of the time",)))
    assert "machine_busy" in [finding.rule for finding in whole.findings]


def test_no_rate_is_held_against_one_that_it_exceeds() -> None:
    peaks = Peaks("cpu", "measured", 27.8e9, {"float32": 1e11}, threads=2)
    assert "of the 27.8 GB/s" in achieved(Machine(peaks, "counted"), 10_000_000, 1.0)
    assert achieved(Machine(peaks, "counted"), 10_000_000, 0.2) == "moves 10.0 MB in 200 us: 50.0 GB/s"


def test_an_index_that_is_clamped_is_why_a_loop_has_no_vectors() -> None:
    """Replication padding, as torch 2.11 writes it; a clamp of the values is none of the index."""
    loop = "for(int64_t x1=0L; x1<321L; x1+=1L)\n{\n%s\n}"
    index = "320L*std::min(static_cast<int64_t>(239L), static_cast<int64_t>(x0)) + x1"
    text = loop % f"auto tmp0 = in_ptr0[static_cast<int64_t>({index})];"
    clamped = LoopNest(1, 77441, False, 0, 1, False, "", text)
    values = replace(clamped, text=loop % "auto tmp0 = std::min(in_ptr0[static_cast<int64_t>(x1)], 1.0f);")
    assert cpu_not_vectorized._reason(clamped, text) == (cpu_not_vectorized._CLAMPED, PADDED)
    assert "clamped" not in cpu_not_vectorized._reason(values, text)[0]
    # A stride of a tensor with symbolic sizes, which may be empty.
    stride = "static_cast<int64_t>(x1 + x0*std::max(static_cast<int64_t>(1L), static_cast<int64_t>(ks2)))"
    strided = replace(clamped, text=loop % f"auto tmp0 = in_ptr1[{stride}]; auto tmp1 = in_ptr2[x1];")
    assert "clamped" not in cpu_not_vectorized._reason(strided, text)[0]


def test_doubles_are_no_reason_where_others_of_the_kernel_go_in_vectors() -> None:
    """Positions as [n, 3] in float64, as torch 2.11 writes it: the index skips, and doubles have vectors."""
    loop = "for(int64_t x0=0L; x0<9L; x0+=1L)\n{\nfor(int64_t x1=0L; x1<768L; x1+=1L)\n{\n%s\n}\n}"
    skips = "auto tmp1 = double(in_ptr1[static_cast<int64_t>(1L + 3L*x1)]);"
    nest = LoopNest(1, 77441, False, 0, 1, False, "", loop % skips)
    assert cpu_not_vectorized._reason(nest, nest.text)[0] == "float64"
    whole = nest.text + "at::vec::VectorizedN<double,2>::loadu(out_ptr1)"
    assert "skips over elements" in cpu_not_vectorized._reason(nest, whole)[0]
    rows = replace(nest, text=loop % "auto tmp1 = in_ptr1[static_cast<int64_t>(x1 + 768L*x0)];")
    assert "skips" not in cpu_not_vectorized._reason(rows, whole)[0]
    # Rolled over the edge, the input is contiguous already; its neighbour is seen in other sizes.
    rolled = "in_ptr2[static_cast<int64_t>((static_cast<int64_t>(8L + x2) % static_cast<int64_t>(9L)))]"
    viewed = "in_ptr2[static_cast<int64_t>(((x1 + 256L*x0) % static_cast<int64_t>(12L)))];"
    mask = "auto tmp0 = x1;\nauto tmp1 = c10::convert<uint16_t>(tmp0);"
    texts = (rolled, viewed, mask)
    told = [cpu_not_vectorized._reason(replace(nest, text=loop % text), "")[0] for text in texts]
    assert ["roll" in reason for reason in told] == [True, False, False]
    assert "divisions" in told[1] and "eye" in told[2]


def test_what_generated_code_loses_with_is_offered_to_aten(softmax_fallback: Case) -> None:
    """The operators of the kernel that lost; a neighbour that a library runs on both sides has none."""
    lost = block([("aten::tanh", 1.0)], [("cpp_fused_tanh", 9.0)], 1)
    lost = replace(lost, compiled_kernels=kernels(("cpp_fused_tanh", 9.0), generated=True))
    even = block([("aten::addmm", 1.0)], [("aten::addmm", 9.0)], 2)
    (graph,) = softmax_fallback.graphs
    origin = SourceNodes(("tanh",), 1, ("aten.unsqueeze", "aten.tanh", "aten.sum", "aten.clone"))
    first = replace(graph.launches[0], role="generated")
    first = replace(first, call=replace(first.call, origin=origin))
    second = replace(first, role="library", call=replace(first.call, index=first.call.index + 1))
    places = [((graph.name, item.call.index),) for item in (first, second)]
    blocks = [replace(item, launches=place) for item, place in zip((lost, even), places, strict=True)]
    told = case(blocks, side(4.0, 2.0), side(18.0, 18.0), 4.0, 18.0)
    told = replace(told, graphs=(replace(graph, launches=(first, second)),))
    findings = list(slower_than_eager.find(told))
    assert [finding.trial for finding in findings] == [Trial(whole=("aten.tanh",)), None]
    assert "aten.tanh to ATen" in findings[0].advice and "the same kernel" in findings[1].advice
    # Page faults are of blocks that touch much memory, as far as these lost.
    much = replace(graph, launches=(replace(first, bytes=5000), replace(second, bytes=5_000_000)))
    manifest = Manifest(("python",), "done", 0, 0.0, 1.0, page_fault_us=(1.0, 2.0))
    counted = replace(told.times, faults=9000, eager_faults=0)
    told = replace(told, graphs=(much,), times=counted, facts=replace(told.facts, manifest=manifest))
    (finding,) = page_faults.find(told)
    assert [claim.block for claim in finding.claims] == [1, None]
    assert sum(claim.ms[1] for claim in finding.claims) == pytest.approx(18.0)
    assert finding.claims[0].ms[1] == pytest.approx(told.slower[1][1].difference_ms)


def test_what_fusing_would_win_is_never_loud(corpus: Path) -> None:
    """Nobody saw it: half of a call is no more than medium, while measured copies of a half are."""
    found = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = found.graphs
    launch = replace(graph.launches[1], ms=10.0, bytes=1 << 26, role="copy", measured=True, profiled_ms=10.0)
    group = next(item for item in graph.fusion.groups if item.reads and not item.is_wall)
    shared = (replace(group.reads[0], bytes=1 << 25),)
    names = (group.name, group.name)
    pair = Missed(*names, 1 << 25, shared, "rejected", "other", "reason", "", "", True, False, None)
    fusion = replace(graph.fusion, missed=(pair,))
    told = replace(found, graphs=(replace(graph, launches=(launch,), fusion=fusion, runs=1.0),))
    told = replace(told, times=Times(compiled_ms=10.0, calls=10, steady_calls=9))
    guessed = [finding.severity for finding in unfused_traffic.find(told)]
    seen = [finding.severity for finding in layout_copies.find(told)]
    assert (guessed, seen) == (["medium"], ["high"])
    # What reads windows of another's result has fewer loops or more: in one it would compute that again.
    window = replace(group, name="window", nodes=("w",))
    node = next(item for item in fusion.nodes if item.name in group.nodes)
    reader = replace(node, name="w", extents=frozenset({(7, 1)}))
    apart = replace(
        fusion,
        groups=(*fusion.groups, window),
        nodes=(*fusion.nodes, reader),
        missed=(replace(pair, second="window"),),
    )
    assert not list(unfused_traffic.find(replace(told, graphs=(replace(told.graphs[0], fusion=apart),))))


def test_bytes_are_claimed_where_they_bound_the_kernel_and_at_the_rate_of_the_machine(corpus: Path) -> None:
    """67 MB, half of them for the next kernel, at 100 GB/s: no less than 0.67 ms, as a rule up to twice that.
    A kernel that takes 10 ms for as many computes, and fewer bytes would not shorten it."""
    found = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = found.graphs
    group = next(item for item in graph.fusion.groups if item.reads and not item.is_wall)
    shared = (replace(group.reads[0], bytes=1 << 25),)
    pair = Missed(
        group.name, group.name, 1 << 25, shared, "rejected", "other", "reason", "", "", True, False, None
    )
    fusion = replace(graph.fusion, missed=(pair,))
    peaks = {"cpu": Peaks("cpu", "measured", 100e9, {"float32": 1e11}, threads=2).to_json()}

    def found_of(ms: float, machine: dict[str, object], expected_ms: float | None = None) -> list[Finding]:
        first = replace(graph.launches[1], bytes=1 << 26, role="generated", measured=True, profiled_ms=ms)
        launch = replace(first, ms=ms, expected_ms=expected_ms, in_vectors_ms=expected_ms)
        told = replace(found, graphs=(replace(graph, launches=(launch,), fusion=fusion, runs=1.0),))
        told = replace(told, machine=machine, times=Times(compiled_ms=12.0, calls=10, steady_calls=9))
        return list(unfused_traffic.find(told))

    def claimed(
        ms: float, machine: dict[str, object], expected_ms: float | None = None
    ) -> list[float | None]:
        return [finding.cost_ms for finding in found_of(ms, machine, expected_ms)]

    def asked(ms: float, machine: dict[str, object], expected_ms: float) -> tuple[float, float]:
        ((claim,),) = (each.claims for each in found_of(ms, machine, expected_ms))
        return claim.ms

    assert claimed(1.2, {"peaks": peaks}) == [pytest.approx(0.6)]
    assert claimed(10.0, {"peaks": peaks}) == []
    # Of a pair whose other kernel is bound by something else, half of the bytes may be that one's.
    apart = replace(group, name="other", nodes=("o",), calls=(99,))
    node = next(item for item in fusion.nodes if item.name in group.nodes)
    fusion = replace(
        fusion,
        groups=(*fusion.groups, apart),
        nodes=(*fusion.nodes, replace(node, name="o")),
        missed=(replace(pair, second="other"),),
        _groups={},
    )
    assert claimed(1.2, {"peaks": peaks}) == [pytest.approx(0.3)]
    fusion = replace(graph.fusion, missed=(pair,))
    # What is expected of its arithmetic says nothing of what was measured, but that it may hide the rest.
    assert asked(1.2, {"peaks": peaks}, 1.4) == pytest.approx((0.3, 0.6))
    assert asked(1.2, {"peaks": peaks}, 14.0) == pytest.approx((0.0, 0.6))
    # By a table's 10 GB/s it may be its bytes, unless its arithmetic surely takes longer by the same table.
    assert claimed(10.0, {}, 6.7) == [pytest.approx((1 << 26) / 10e9 * 1e3 / 2)]
    assert claimed(10.0, {}, 14.0) == []


def test_random_numbers_are_blamed_for_no_more_than_what_draws_them_took(softmax_fallback: Case) -> None:
    """A block of two kernels lost 4 of 6 ms. What draws took 3: the other one can have lost 3, so that 1 ms
    is sure; where it took 5, all of it may be the other's."""
    graph = softmax_fallback.graphs[0]
    body = LoopBody("body", (), (), ("rand = ops.rand(load_seed, index_expr)",))
    plain = replace(graph.launches[0], role="generated", leaves=())
    leaf = replace(graph.launches[0].leaves[0], body=body)

    def said(drawing_ms: float, other_ms: float) -> list[tuple[float, float]]:
        draws = replace(plain, leaves=(leaf,), ms=drawing_ms)
        other = replace(plain, ms=other_ms, call=replace(plain.call, index=plain.call.index + 1))
        places = tuple((graph.name, item.call.index) for item in (draws, other))
        lost = replace(block([("bernoulli_", 2.0)], [("cpp_fused", 6.0)]), launches=places, graph=graph.name)
        told = case([lost], side(4.0, 2.0), side(8.0, 6.0), 4.0, 8.0)
        told = replace(told, graphs=(replace(graph, launches=(draws, other)),))
        return [finding.claims[0].ms for finding in random_numbers.find(told)]

    assert said(6.0, 0.0) == [pytest.approx((4.0, 4.0))]
    assert said(3.0, 3.0) == [pytest.approx((1.0, 3.0))]
    assert said(1.0, 5.0) == []
    # Drawn places of which elements are fetched, 14.3 ms for 8.55: drawn by ATen it took as long.
    drawn = (*body.lines, "set_indirect0 = self.set_indirect0(rand)")
    leaf = replace(leaf, body=replace(body, lines=drawn, indexing=(("index1", "indirect0"),)))
    assert said(6.0, 0.0) == []


def test_layouts_that_a_library_changes_are_what_its_conversions_take(softmax_fallback: Case) -> None:
    """Of a block of 5 ms cuDNN spends 2 on converting; a neighbour that convolves alone has none of it."""
    converts = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float>(float const*)"
    folded = "void cudnn::ops::foldedNhwcToNchwKernel<float>(float const*)"
    blocks = [
        block([("a", 3.0)], [(converts, 1.5), (folded, 0.5), ("sm80_xmma_fprop_nhwc", 3.0)], 1, "conv3d"),
        block([("a", 3.0)], [("sm80_xmma_fprop_implicit_gemm_nchw_to_nhwc_like", 3.0)], 2, "conv3d"),
    ]
    told = case(blocks, side(10.0, 6.0, True), side(10.0, 8.0, True), 10.0, 10.0)
    graph = replace(softmax_fallback.graphs[0], gpu=True)
    (finding,) = library_conversions.find(replace(told, graphs=(graph,)))
    assert [(claim.block, claim.ms) for claim in finding.claims] == [(0, (0.0, 2.0))]
    assert "channels_last_3d" in finding.advice and finding.title.startswith("2.00 ms in 2 kernels")
    assert not list(library_conversions.find(replace(told, graphs=softmax_fallback.graphs)))


def test_a_kernel_of_much_other_work_draws_a_few_numbers_in_no_more_than_they_take(
    softmax_fallback: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A particle filter draws two numbers for each particle in the kernel that weighs it by sixty beams."""
    graph = softmax_fallback.graphs[0]
    leaf = graph.launches[0].leaves[0]
    body = LoopBody("body", (), (), ("randn = ops.randn(load_seed, index_expr)",))
    drawn = replace(leaf, body=body, sizes=((10_000,), ()))
    launch = replace(graph.launches[0], leaves=(leaf, drawn))
    operator = WholeOperator("randn", "randn", "randn()", (), ("n",), (0,), None)
    slower = Slower(graph, (operator,), (launch,), 9.0, "0.10 ms, in eager", "profiled", (2.0, 8.0), 0.1)
    most = random_numbers._bounded(softmax_fallback, slower).ms[1]
    threads = (softmax_fallback.threads or 1) if "#pragma omp parallel" in launch.source else 1
    assert most == pytest.approx(10_000 * random_numbers.MOST_NS / 1e6 / threads * graph.runs)
    # So many normal numbers surely take their time, whatever else the kernel does.
    many = replace(launch, leaves=(leaf, replace(drawn, sizes=((200_000,), ()))))
    sure = random_numbers._bounded(softmax_fallback, replace(slower, launches=(many,), ms=(0.0, 8.0))).ms[0]
    assert sure == pytest.approx(200_000 * 17 / 1e6 / threads * graph.runs - 0.1)
    # Of uniform ones not as long, and of places that are drawn and fetched nobody knows.
    for text, each in (("rand", 8), ("randint64", 0)):
        other = replace(drawn, sizes=((200_000,), ()), body=replace(body, lines=(f"a = ops.{text}(b, c)",)))
        one = replace(slower, launches=(replace(launch, leaves=(leaf, other)),), ms=(0.0, 8.0))
        least = max(200_000 * each / 1e6 / threads * graph.runs - 0.1, 0.0)
        assert random_numbers._bounded(softmax_fallback, one).ms[0] == pytest.approx(least)
    unknown = replace(slower, launches=(replace(launch, leaves=(replace(drawn, sizes=None),)),))
    assert random_numbers._bounded(softmax_fallback, unknown).ms == (2.0, 8.0)


def test_one_setting_draws_all_random_numbers(
    softmax_fallback: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What draws in two places is one finding, and claims what both lose."""
    graph = softmax_fallback.graphs[0]
    operator = WholeOperator("randn", "randn", "randn()", (), ("n",), (0,), None)
    slower = [
        Slower(graph, (operator,), graph.launches[:1], 9.0, "1.00 ms, in eager", "profiled", (low, low), 1.0)
        for low in (3.0, 4.0)
    ]
    monkeypatch.setattr(random_numbers, "slower_operators", lambda _: slower)
    told = replace(softmax_fallback, times=Times(compiled_ms=20.0, calls=10, steady_calls=9))
    (finding,) = random_numbers.find(told)
    assert finding.cost_ms == 7.0 and sum(claim.ms[0] for claim in finding.claims) > 0
    assert finding.title.endswith(", and 1 other like it")


def test_a_cause_of_what_a_profile_shows_stands_before_what_no_profile_shows(
    softmax_fallback: Case,
) -> None:
    """A call lost 12 ms, 7 of them in the block that a profile shows. A cause of 6 of these comes first, and
    that the other 5 have none after it; of a cause of 2 it comes before."""
    lost = block([("a", 3.0)], [("a", 10.0)])
    told = case([lost], side(5.0, 3.0), side(12.0, 10.0), 5.0, 17.0)
    told = replace(told, graphs=softmax_fallback.graphs)
    parts = (Part("block", 10.0, "profiled", 3.0, 0, (("g", 0),)),)
    for claimed, seen in ((6.0, True), (2.0, False)):
        own = tuple(replace(part, claimed_ms=(claimed, claimed)) for part in parts)
        account = Account(17.0, 5.0, 0.5, own, claimed_ms=(claimed, claimed))
        found = slower_than_eager.slower_than_eager(told, account)
        assert found is not None
        rule, finding = found
        assert rule is (slower_than_eager.REST if seen else slower_than_eager.UNKNOWN)
        assert ("profiled calls lose 7.00 ms and no more" in finding.title) == seen
    # A profile that slowed one side says nothing against a cause that may be all of it.
    slowed = replace(case([lost], side(11.0, 3.0), side(12.0, 10.0), 5.0, 17.0), graphs=told.graphs)
    assert not slower_than_eager._fits(slowed)
    for most, rule in ((13.0, slower_than_eager.REST), (5.0, slower_than_eager.UNKNOWN)):
        even = (replace(parts[0], eager_ms=10.0, claimed_ms=(0.0, most)),)
        found = slower_than_eager.slower_than_eager(
            slowed, Account(17.0, 5.0, 0.5, even, claimed_ms=(0.0, most))
        )
        assert found is not None and found[0] is rule
    loud = Finding("slower_than_eager", "medium", "", None, 8.0, (), "", "measured", share=0.5)
    cause = replace(loud, rule="recomputed", how="estimated")
    first, second = sorted(
        ((loud, slower_than_eager.REST), (cause, recomputed.RULE)),
        key=lambda item: rank(item[0], item[1].stage, told.times),
    )
    assert first[0] is cause and second[0] is loud


def test_a_copy_beside_other_loops_of_a_kernel_is_an_estimate(corpus: Path) -> None:
    """The kernel was timed, its loops were not: one that copies takes no more than moving its bytes does."""
    found = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = found.graphs
    first = graph.launches[0]
    leaf = first.leaves[0]
    lines = ("load = ops.load('a', index)", "store = ops.store('b', index, load, None)")
    copied = replace(leaf, name="copied", body=LoopBody("copied", (), (), lines))
    other = next(item for item in graph.fusion.groups if first.call.index in item.calls and item.reads)
    moved = replace(other.reads[0], bytes=1 << 19)
    own = replace(other, name="copied", kind="single", nodes=("copied",), reads=(moved,), writes=(moved,))
    fusion = replace(graph.fusion, groups=(other, own))
    launch = replace(first, role="generated", leaves=(leaf, copied), ms=10.0, bytes=1 << 20, measured=True)
    told = replace(found, graphs=(replace(graph, launches=(launch,), fusion=fusion, runs=1.0),))
    told = replace(told, times=Times(compiled_ms=10.0, calls=10, steady_calls=9))
    (finding,) = layout_copies.find(told)
    assert finding.how == "estimated" and finding.cost_ms is not None and finding.cost_ms < 0.1
    (whole,) = layout_copies.find(
        replace(told, graphs=(replace(told.graphs[0], launches=(replace(launch, role="copy"),)),))
    )
    assert whole.cost_ms == 10.0 and whole.how != "estimated"


def test_random_numbers_are_nothing_that_vectors_would_save(softmax_fallback: Case) -> None:
    """A loop that draws is slow because of what it draws; its neighbour, which does not, is not."""
    line = "for(int64_t x0=0L; x0<1000L; x0+=1L)\n{\nauto tmp0 = in_ptr0[x0];\n%s\n}"
    graph = softmax_fallback.graphs[0]
    first = replace(graph.launches[0], role="generated", ms=10.0, measured=True, bytes=8000)
    call = replace(first.call, kind="cpp")

    def saved(text: str) -> float:
        kernel = Kernel("cpp_fused", "cpp", source=text)
        launches = (replace(first, call=call, kernel=kernel, points=1000),)
        told = replace(softmax_fallback, graphs=(replace(graph, launches=launches, runs=1.0),))
        (finding,) = cpu_not_vectorized.find(replace(told, times=Times(compiled_ms=10.0)))
        return finding.cost_ms or 0.0

    assert saved(line % "auto tmp1 = tmp0 + tmp0;") == pytest.approx(7.5)
    assert saved(line.replace("1000L", "ks0") % "auto tmp1 = tmp0 + tmp0;") == pytest.approx(7.5)
    assert saved(line % "auto tmp1 = normalized_rand_cpu(tmp0, x0);") < 1.5


def test_the_input_whose_stride_is_a_symbol_is_named(softmax_fallback: Case) -> None:
    source = "for(int64_t x0=0L; x0<1000L; x0+=1L)\n{\nauto tmp0 = in_ptr0[static_cast<int64_t>(ks0*x0)];\n}"
    graph = softmax_fallback.graphs[0]
    first = replace(graph.launches[0], role="generated", ms=10.0, measured=True, bytes=8000)
    launch = replace(
        first,
        call=replace(first.call, kind="cpp"),
        kernel=Kernel("cpp_fused", "cpp", source=source),
        points=1000,
    )
    text = (
        "class GraphModule(torch.nn.Module):\n"
        '    def forward(self, L_phase_: "f32[64][s87]cpu"):\n'
        "        return (L_phase_,)\n"
    )
    traced = {graph.artifacts.compile_id or "": parse_fx_graph(text, "fx")}
    told = replace(
        softmax_fallback,
        graphs=(replace(graph, launches=(launch,), runs=1.0),),
        times=Times(compiled_ms=10.0),
        traced=lambda: traced,
    )
    (finding,) = cpu_not_vectorized.find(told)
    assert "a stride that is a symbol" in finding.title
    assert finding.advice == "make phase contiguous before the call: x.contiguous()"


def test_columns_that_are_read_can_be_copied_and_those_that_are_written_can_not(
    softmax_fallback: Case,
) -> None:
    """As an integrand of points that lie as [n, 4]: 12.4 ms a call, and 1.69 so."""
    line = "for(int64_t x0=0L; x0<1000L; x0+=1L)\n{\n%s\n}"
    read = "auto tmp0 = in_ptr0[static_cast<int64_t>(1L + 4L*x0)];"
    written = "auto tmp0 = in_ptr0[x0];\nout_ptr0[static_cast<int64_t>(4L*x0)] = tmp0;"
    graph = softmax_fallback.graphs[0]
    first = replace(graph.launches[0], role="generated", ms=10.0, measured=True, bytes=8000)

    def told(text: str, *fx: str) -> Finding:
        kernel = Kernel("cpp_fused", "cpp", source=line % text)
        call = replace(first.call, kind="cpp")
        launches = (replace(first, call=call, kernel=kernel, points=1000, fx=fx),)
        case = replace(softmax_fallback, graphs=(replace(graph, launches=launches, runs=1.0),))
        (finding,) = cpu_not_vectorized.find(replace(case, times=Times(compiled_ms=10.0)))
        assert "skips over elements" in finding.title
        return finding

    assert told(read, "select_1", "mul").trial == Trial(kept=("aten.select",))
    assert "x.as_strided(" in told(read, "select_1").advice
    for text, fx in ((read, "mul"), (written, "select_1")):
        assert told(text, fx).trial is None and "as_strided" not in told(text, fx).advice


def test_the_line_of_a_slow_function_is_that_of_its_operator() -> None:
    nest = LoopNest(1, 9000, True, 0, 1, False, "bessel_j1_forward", "")
    told = [cpu_not_vectorized._goes_by_lanes(nest, name) for name in ("special_bessel_j1", "mul", "div", "")]
    assert told == [True, False, False, False]
    divides = replace(nest, lanes=DIVISION)
    assert cpu_not_vectorized._goes_by_lanes(divides, "remainder")
    assert not cpu_not_vectorized._goes_by_lanes(divides, "special_bessel_j1")


def test_an_innermost_loop_of_three_is_what_keeps_vectors_away() -> None:
    """As a cross product's, whose index is computed with; what has no vectors is so however long it is."""
    text = (
        "for(int64_t x0=0L; x0<660L; x0+=1L)\n{\nfor(int64_t x2=0L; x2<3L; x2+=1L)\n{\n"
        "auto tmp1 = in_ptr2[static_cast<int64_t>(c10::div_floor_integer(x0, 72L) + ((1L + x2) %% 3L))];\n"
        "%s}\n}"
    )
    (nest,) = loop_nests(text % "")
    assert nest.innermost == 3
    reason, advice = cpu_not_vectorized._reason(nest, nest.text)
    assert reason == "its innermost loop has 3 elements, fewer than a vector" and "[4, n]" in advice
    (nest,) = loop_nests(text % "auto tmp2 = calc_erfcx(tmp1);\n")
    assert "vector form" in cpu_not_vectorized._reason(nest, nest.text)[0]
    (nest,) = loop_nests((text % "").replace("x2<3L", "x2<768L"))
    assert nest.innermost == 768 and "innermost" not in cpu_not_vectorized._reason(nest, nest.text)[0]


def test_the_same_kernel_on_a_busy_machine_lost_nothing() -> None:
    """Beside another kernel, which may well have."""
    same = block([("aten::bmm", 1.0)], [("aten::bmm", 9.0)], 1)
    other = block([("aten::tanh", 1.0)], [("cpp_fused_tanh", 9.0)], 2)
    other = replace(other, compiled_kernels=kernels(("cpp_fused_tanh", 9.0), generated=True))
    told = case([same, other], side(4.0, 2.0), side(18.0, 18.0), 4.0, 18.0)
    assert len(list(slower_than_eager.find(told))) == 2
    (finding,) = slower_than_eager.find(replace(told, profile_busy=("other processes used 2 cores",)))
    assert finding.claims[0].block == 1


def test_estimates_of_kernels_share_a_call(softmax_fallback: Case) -> None:
    """Two kernels of 9 ms in a call of 6 are 3 each: nobody saves all of a call."""
    (graph,) = softmax_fallback.graphs
    launch = replace(graph.launches[0], ms=9.0, measured=False)
    told = replace(softmax_fallback, graphs=(replace(graph, launches=(launch, launch), runs=1.0),))
    told = replace(told, times=Times(compiled_ms=6.0))
    assert told.within_call(9.0) == pytest.approx(3.0) and told.within_call(18.0) == pytest.approx(6.0)
    measured = tuple(replace(item, measured=True) for item in told.graphs[0].launches)
    told = replace(told, graphs=(replace(told.graphs[0], launches=measured),))
    assert told.within_call(9.0) == 9.0


def test_a_scatter_is_no_concatenation(softmax_fallback: Case) -> None:
    (graph,) = softmax_fallback.graphs
    assert "concatenate" not in layout_copies._advice(graph, "cpp_fused_index_scatter_reduce_0")
    assert "concatenate" in layout_copies._advice(graph, "cpp_fused_cat_0")


def test_an_index_add_that_became_an_index_put_may_stay_one(softmax_fallback: Case) -> None:
    """Of complex numbers: 1.29 ms a call for eager's 0.14 on an H200."""
    lost = block([("indexFuncLargeIndex", 1.0)], [("indexing_backward_kernel", 6.0)], operator="index_add")
    graph = softmax_fallback.graphs[0]
    launch = graph.launches[0]
    lost = replace(lost, launches=((graph.name, launch.call.index),), graph=graph.name)
    told = case([lost], side(9.0, 1.0), side(14.0, 6.0), 9.0, 14.0)
    for called, adds in (("index_put_", True), ("index_add", False)):
        call = replace(launch.call, kernel=f"torch.ops.aten.{called}.default")
        other = replace(graph, launches=(replace(launch, role="fallback", call=call),))
        (finding,) = library_kernel_differs.find(replace(told, graphs=(other,)))
        assert ("view_as_real" in finding.advice) == adds
        assert (finding.trial == Trial(whole=("aten.index_add",))) == adds


def test_a_factor_whose_rows_and_columns_lie_apart_is_copied_matrix_by_matrix(softmax_fallback: Case) -> None:
    """Mamba-2's: 41.4 ms a call, 24.6 with .contiguous() behind what makes the factor."""
    lost = block([("bmm", 6.0)], [("bmm", 6.0), ("aten::copy_", 30.0)], operator="einsum")
    graph = softmax_fallback.graphs[0]
    launch = graph.launches[0]
    lost = replace(lost, launches=((graph.name, launch.call.index),), graph=graph.name)
    told = case([lost], side(40.0, 6.0), side(70.0, 36.0), 40.0, 70.0)
    call = replace(launch.call, kernel="extern_kernels.bmm", arguments=("buf15", "buf16", "out=buf17"))

    text = """
class GraphModule(torch.nn.Module):
    def forward(self, g: "f32[48, 256, 256]", h: "f32[48, 256, 32]"):
        # File: model.py:312 in scan, code: M = G * L
        mul: "f32[48, 256, 256]" = torch.ops.aten.mul.Tensor(g, g)
        # File: model.py:316 in scan, code: torch.einsum("bclsh,bcshp->bclhp", M, x)
        view: "f32[48, 256, 256]" = torch.ops.aten.reshape.default(mul, [48, 256, 256])
        bmm: "f32[48, 256, 32]" = torch.ops.aten.bmm.default(view, h)
        return (bmm,)
"""
    fx = parse_fx_graph(text, "fx.py")
    graph = replace(graph, artifacts=replace(graph.artifacts, fx_after=fx))
    launch = replace(launch, fx=("mul", "view", "bmm"))

    def found(stride: tuple[int, ...], kernel: str = "extern_kernels.bmm") -> list[Finding]:
        layout = Layout("FixedLayout", "", "cpu", "float32", (48, 256, 256), stride)
        buffer = Buffer("buf15", "ComputedBuffer", layout)
        maker = SchedulerNode("op3", "SchedulerNode", (), LineSpan(1, 1), outputs=(buffer,))
        own = replace(launch, role="library", call=replace(call, kernel=kernel), leaves=(maker,))
        other = replace(told, graphs=(replace(graph, launches=(own,)),))
        return [finding for finding in library_kernel_differs.find(other) if "copies each" in finding.title]

    (finding,) = found((1, 12288, 48))
    assert "strides (1, 12288, 48): 30.0 ms" in finding.title
    assert "row by row behind what makes it in line 312: .contiguous(), or" in finding.advice
    called = replace(launch, role="library", call=call)
    line = busiest_line(graph, called)
    assert line is not None and line.line == 316
    assert busiest_line(graph, replace(called, role="generated")) is None
    assert finding.claims[0].block == 0 and finding.claims[0].ms[1] == 30.0
    assert not found((65536, 256, 1)) and not found((65536, 1, 256))
    assert not found((1, 12288, 48), "extern_kernels.mm")
