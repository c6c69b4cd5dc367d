"""Explaining what ran on a GPU, where host and device work at once: real graphs, set times."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_calls import compared, sized
from test_explain_ledger import added_up, parts, rules, timed

from inspector.explain.case import Case, GraphCase
from inspector.explain.cuda_graphs import graphs_of_call, unrecordable
from inspector.explain.engine import explain_case
from inspector.explain.estimate import GPU_KERNEL_MS, generated_ms, peak
from inspector.explain.gather import gather
from inspector.explain.ledger import GUARDS, HOST_SIDE, TRANSFERS, WAITING, WITHIN_GRAPHS, make_ledger
from inspector.explain.rules import cudagraphs_per_size, slower_than_eager, tf32_disabled
from inspector.explain.times import Times
from inspector.explain.transfers import transfers
from inspector.model.calls import Event
from inspector.model.explain import Finding, Trial
from inspector.model.fx import FxNode, TensorMeta
from inspector.model.logs import LogRecord
from inspector.model.schedule import Buffer, Layout, LoopBody, SchedulerNode
from inspector.model.source import LineSpan, SourceLocation
from inspector.model.state import GraphState, TorchState
from inspector.readers.run import Run
from inspector.replay.protocol import PlannedCall
from inspector.replay.worker.kernels.facts import GraphFacts
from inspector.trial.candidates import _ROWS


@pytest.fixture(scope="module")
def softmax(corpus: Path) -> Case:
    return gather(Run.open(corpus / "h200-torch2.11" / "softmax"))


def test_what_the_host_does_while_kernels_run_is_not_counted_twice(softmax: Case) -> None:
    """The host leaves the graph after 0.2 ms of 0.6, and waits for 0.5 ms of kernels: 0.1 ms are its own."""
    ledger = make_ledger(timed(softmax, 0.6, 1.0, 0.2, 0.5))
    assert added_up(ledger) == pytest.approx(0.6)
    found = parts(ledger)
    assert found[GUARDS] == pytest.approx(0.1)
    assert WITHIN_GRAPHS not in found
    assert ledger.unexplained_ms == pytest.approx(0.0, abs=1e-12)


def test_a_host_that_is_slower_than_the_kernels_has_both_gaps(softmax: Case) -> None:
    found = parts(make_ledger(timed(softmax, 0.060, 0.025, 0.030, 0.008)))
    assert found[GUARDS] == pytest.approx(0.030)
    assert found[WITHIN_GRAPHS] == pytest.approx(0.022)


def test_kernels_longer_than_the_call_are_not_hidden(softmax: Case) -> None:
    assert make_ledger(timed(softmax, 0.4, 1.0, 0.2, 0.5)).unexplained_ms == pytest.approx(-0.1)


def test_cuda_graphs_are_advised_where_they_win(softmax: Case) -> None:
    """One CUDA graph takes 80 us a call itself, so two launches are no reason for one."""
    few = explain_case(timed(softmax, 0.060, 0.025, 0.030, 0.008)).findings[0]
    assert few.rule == "host_bound"
    assert few.trial is not None and few.trial.mode is None
    assert "would not help" in few.advice
    many = explain_case(timed(softmax, 1.200, 1.000, 1.100, 0.200)).findings[0]
    assert many.rule == "host_bound"
    assert many.trial is not None and many.trial.mode == "reduce-overhead"
    assert many.cost_ms == pytest.approx(1.200 - 0.080 - 0.200)


@pytest.mark.parametrize(
    ("target", "shape", "waits"),
    [
        ("torch.ops.aten._linalg_eigh.default", (4, 4), True),
        ("torch.ops.aten.cholesky_solve.default", (16, 4, 4), True),
        # One matrix is cuSOLVER's, and a triangle's solution is nobody's to check.
        ("torch.ops.aten.cholesky_solve.default", (4, 4), False),
        ("torch.ops.aten.linalg_solve_triangular.default", (16, 4, 4), False),
    ],
)
def test_no_cuda_graph_is_advised_that_cannot_be_recorded(
    softmax: Case, target: str, shape: tuple[int, ...], waits: bool
) -> None:
    solved = with_transfer(timed(softmax, 1.200, 1.000, 1.100, 0.200), target, shape)
    found = explain_case(replace(solved, facts=replace(solved.facts, torch_version="2.10.0"))).findings[0]
    assert found.rule == "host_bound" and found.trial is not None
    assert (found.trial.mode is None) == waits
    assert ("no CUDA graph can be recorded" in found.advice) == waits
    newer = explain_case(replace(solved, facts=replace(solved.facts, torch_version="2.11.0+cu130"))).findings[
        0
    ]
    assert "reduce-overhead" in newer.advice and (newer.trial is None) == waits
    assert ('custom_should_partition_ops = ["aten::' in newer.advice) == waits
    rows = [row for row in _ROWS if row.trial.mode == "reduce-overhead"]
    assert [row.possible(solved) for row in rows] == [not waits]


def test_cudnn_measures_its_algorithms_where_it_does_not_yet(softmax: Case) -> None:
    rows = [row for row in _ROWS if ("backends.cudnn.benchmark", "True") in row.trial.state]
    convolution: Any = SimpleNamespace(role="library", name="extern_kernels.convolution")
    matmul: Any = SimpleNamespace(role="library", name="extern_kernels.mm")
    assert [(row.bears(convolution), row.bears(matmul)) for row in rows if row.bears] == [(True, False)]
    assert [row.possible(softmax) for row in rows] == [True]
    state: Any = SimpleNamespace(torch=SimpleNamespace(values={"backends.cudnn.benchmark": True}))
    measured = replace(softmax, graphs=tuple(replace(g, state=state) for g in softmax.graphs))
    assert [row.possible(measured) for row in rows] == [False]


def test_torch_before_2_9_records_nothing_of_a_graph_that_moves_tensors(softmax: Case) -> None:
    moved = with_transfer(softmax)
    old, new = (replace(moved, facts=replace(moved.facts, torch_version=it)) for it in ("2.8.0", "2.10.1"))
    assert unrecordable(old) == ("device_put",) and unrecordable(new) == ()
    assert graphs_of_call(new) == graphs_of_call(softmax) + 1


def with_transfer(
    case: Case, target: str = "torch.ops.prims.device_put.default", shape: tuple[int, ...] | None = None
) -> Case:
    """The graph with a copy of its first input to the GPU, or with another operator."""
    (graph,) = case.graphs
    fx = graph.artifacts.fx_after
    assert fx is not None
    node: FxNode = replace(fx.nodes[-1], target=target)
    if shape is not None:
        node = replace(node, meta=TensorMeta("float32", shape))
    nodes = (*fx.nodes[:-1], node)
    artifacts = replace(graph.artifacts, fx_after=replace(fx, nodes=nodes))
    return replace(case, graphs=(replace(graph, artifacts=artifacts),))


def test_a_long_wait_beside_a_transfer_is_the_transfers(softmax: Case) -> None:
    case = with_transfer(timed(softmax, 8.0, 6.0, 7.9, 0.040))
    assert len(transfers(case)) == 1
    ledger = make_ledger(case)
    assert added_up(ledger) == pytest.approx(8.0)
    assert parts(ledger)[TRANSFERS] > 7.8
    found = rules(explain_case(case))
    assert found[0] == "device_transfer"
    assert "host_bound" not in found


def test_a_short_wait_beside_a_transfer_stays_the_hosts(softmax: Case) -> None:
    case = with_transfer(timed(softmax, 0.110, 0.060, 0.050, 0.008))
    ledger = make_ledger(case)
    assert added_up(ledger) == pytest.approx(0.110)
    assert parts(ledger)[TRANSFERS] < 0.030


def test_arithmetic_counts_for_the_launch_that_does_it() -> None:
    """A kernel that casts for a matrix product has the product among its origins."""
    calls = {
        0: PlannedCall(0, "cast", "triton", 1, (), (), (), ("convert", "mm"), None),
        1: PlannedCall(1, "mm", "extern", 2, (), (), (), ("mm",), None),
        2: PlannedCall(2, "dot", "triton", 3, (), (), (), ("dot",), None),
    }
    facts = SimpleNamespace(
        subgraph=SimpleNamespace(recording=SimpleNamespace(flops={"mm": 1000, "dot": 10})),
        nodes={},
        calls=calls.values(),
    )
    counted = [GraphFacts.flops_of(facts, call) for call in calls.values()]  # type: ignore[arg-type]
    assert counted == [None, 1000, 10]


def test_a_skipped_cuda_graph_names_the_line_that_torch_blames(softmax: Case) -> None:
    reason = (
        "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n"
        '   File "/home/user/model.py", line 9, in attend\n    cache[:, :, position] = k'
    )
    case = replace(softmax, events=(Event("cudagraph_skip", reason, "attend", None),))
    finding = next(item for item in explain_case(case).findings if item.rule == "cudagraphs_skipped")
    assert finding.title.endswith("skipped: mutated inputs (1 instances)")
    assert "in place" in finding.advice and "torch._dynamo.mark_static_address(x)" in finding.advice
    assert (finding.evidence[0].path, finding.evidence[0].line) == ("/home/user/model.py", 9)


def test_graphs_recorded_for_each_size_are_the_cause_where_calls_of_a_size_lose(corpus: Path) -> None:
    case = gather(Run.open(corpus / "h200-torch2.11" / "cudagraphs"))
    calls = compared(
        sized(("9x512", 1.0, 70), ("8x512", 9.0, 7)), sized(("9x512", 4.0, 70), ("8x512", 4.0, 7))
    )
    case = replace(case, times=replace(case.times, by_sizes=calls))
    warning = (
        "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. Recording "
        "too many CUDAGraphs may lead to extra overhead. We have observed 9 distinct sizes. Please consider"
    )
    warned = replace(case, records=(*case.records, LogRecord(7, "cudagraphs", warning)))
    (finding,) = cudagraphs_per_size.RULE.find(warned)
    assert finding.title.startswith("2.25x slower in its 7 calls with 8x512")
    assert finding.title.endswith("anew for each size (9 when it warned)")
    assert finding.cost_ms == pytest.approx(7 * 5.0 / 77)
    assert finding.evidence[-1].line == 7 and "cudagraph_skip_dynamic_graphs" in finding.advice
    said = [item.title for item in slower_than_eager.RULE.find(case)]
    assert said and said[0].startswith("2.25x slower") and not list(slower_than_eager.RULE.find(warned))
    assert not list(cudagraphs_per_size.RULE.find(case))
    few = replace(warned, times=replace(case.times, by_sizes=None))
    assert not list(cudagraphs_per_size.RULE.find(few))
    flood = replace(case, records=(LogRecord(7, None, warning.partition(" We have")[0] * 20_000),))
    started = time.process_time()
    assert cudagraphs_per_size.per_size(flood) is None
    assert time.process_time() - started < 10


@pytest.mark.parametrize(("number", "few"), [(3, True), (12, False)])
def test_calls_of_a_size_that_lose_are_compiled_for_each_where_there_are_few(
    corpus: Path, number: int, few: bool
) -> None:
    """Of a network on crystals of any size each would have met torch's limit."""
    case = gather(Run.open(corpus / "h200-torch2.11" / "cudagraphs"))
    (graph,) = case.graphs[:1]
    fx = graph.artifacts.fx_after
    assert fx is not None and fx.nodes[0].meta is not None
    meta = replace(fx.nodes[0].meta, shape=("s0", 8))
    symbolic = replace(fx, nodes=(replace(fx.nodes[0], meta=meta), *fx.nodes[1:]))
    graph = replace(graph, artifacts=replace(graph.artifacts, fx_after=symbolic))
    rows = [(f"{8 + size}x512", 9.0 - size / 10, 7) for size in range(number)]
    calls = compared(
        sized(("9x1", 1.0, 70), *rows), sized(("9x1", 4.0, 70), *((name, 4.0, 7) for name, _, _ in rows))
    )
    times = replace(case.times, by_sizes=calls, outcome="faster")
    case = replace(case, times=times, graphs=(graph,))
    told = [item for item in slower_than_eager.RULE.find(case) if "slower in" in item.title]
    assert told and all((item.trial == Trial(dynamic=False)) == few for item in told)
    assert all(("pad to a few sizes" in item.advice) == (not few) for item in told)


def test_sizes_are_told_where_they_add_up_to_the_call(corpus: Path) -> None:
    """Those of a callable that is called beside others are a part of it."""
    case = gather(Run.open(corpus / "h200-torch2.11" / "cudagraphs"))
    calls = compared(
        sized(("9x512", 1.0, 70), ("8x512", 9.0, 7)), sized(("9x512", 4.0, 70), ("8x512", 4.0, 7))
    )
    for whole, told in ((133 / 77, 2), (5.0, 0)):
        times = replace(case.times, by_sizes=calls, compiled_ms=whole, eager_ms=4.0)
        assert len(explain_case(replace(case, times=times)).groups) == told, whole


def test_without_kernel_times_the_hosts_side_is_not_called_the_kernels(softmax: Case) -> None:
    found = parts(make_ledger(timed(softmax, 5.0, 5.0, 0.2, None)))
    assert found == {HOST_SIDE: pytest.approx(0.2), WAITING: pytest.approx(4.8)}


def test_cuda_graphs_in_use_are_not_advised(corpus: Path) -> None:
    case = gather(Run.open(corpus / "h200-torch2.11" / "cudagraphs"))
    assert all(graph.cuda_graphs for graph in case.graphs)
    found = explain_case(timed(case, 1.200, 1.000, 1.100, 0.200)).findings[0]
    assert found.rule == "host_bound"
    assert found.trial is None or found.trial.mode is None
    assert "reduce-overhead" not in found.advice


def matmul_in(
    case: Case, dtype: str, kernel: str = "extern_kernels.mm", graph: GraphCase | None = None
) -> Case:
    """The case with one library call of `kernel` whose own buffer has that dtype."""
    first = graph or case.graphs[0]
    buffer = Buffer("buf0", "ExternKernelOut", Layout("FixedLayout", "", "cuda:0", dtype, (8, 8), (8, 1)))
    node = SchedulerNode("op0", "ExternKernelSchedulerNode", (), LineSpan(1, 1), outputs=(buffer,))
    launch = replace(first.launches[0], role="library", flops=10**10, leaves=(node,), ms=1.0)
    launch = replace(launch, call=replace(launch.call, kernel=kernel))
    return replace(case, graphs=(replace(first, launches=(launch,)),), times=Times())


def tf32(case: Case) -> list[Finding]:
    return list(tf32_disabled.find(case))


def test_tf32_is_missed_by_float32_matmuls_alone(softmax: Case) -> None:
    """Neighbours in the launch's provenance are float32 here; only the call's own dtype counts."""
    assert tf32(matmul_in(softmax, "float32"))
    assert not tf32(matmul_in(softmax, "bfloat16"))
    assert not tf32(matmul_in(softmax, "float32", "extern_kernels.convolution"))


def test_tf32_is_not_for_the_short_ones_of_distances(softmax: Case) -> None:
    """ATen's cdist multiplies [-2x, |x|^2, 1]: what cancels there has 10 bits then."""
    case = matmul_in(softmax, "float32")
    (graph,) = case.graphs
    (launch,) = graph.launches
    for code, distances in (("near = torch.cdist(f, bank).min(1)", True), ("y = f @ bank", False)):
        place = SourceLocation("model.py", 7, None, code)
        own = replace(graph, launches=(replace(launch, sources=(place,)),))
        (finding,) = tf32(replace(case, graphs=(own,)))
        assert ("cdist" in finding.advice) == distances
        assert [(line.path, line.line) for line in finding.evidence if line.text == code] == [("model.py", 7)]


def test_tf32_is_judged_by_the_setting_that_was_recorded(softmax: Case) -> None:
    def at(precision: str) -> Case:
        state = GraphState(TorchState({"get_float32_matmul_precision": precision}))
        return matmul_in(softmax, "float32", graph=replace(softmax.graphs[0], state=state))

    assert tf32(at("highest")) and not tf32(at("high"))


def test_a_program_that_turned_tf32_off_is_not_told_loudly(softmax: Case) -> None:
    lines = ('torch.set_float32_matmul_precision("highest")',)
    state = GraphState(TorchState({"get_float32_matmul_precision": "highest"}))
    case = matmul_in(softmax, "float32", graph=replace(softmax.graphs[0], state=state))
    meant = replace(case, programs=(replace(case.programs[0], lines=lines),))
    assert [finding.severity for finding in tf32(case)] == ["high"]
    assert [finding.severity for finding in tf32(meant)] == ["low"]


@pytest.mark.parametrize(("dtype", "low", "high"), [("float32", 0.3, 0.56), ("float64", 0.6, 3.0)])
def test_what_is_computed_takes_its_time_on_a_gpu_too(dtype: str, low: float, high: float) -> None:
    """A sum over 128 x 1200 x 1200 sines of quotients took 0.555 ms on an H200 and moves 6 MB."""
    lines = (
        "load = ops.load('arg0_1', get_index)",
        "mul = ops.mul(load, load_1)",
        "sin = ops.sin(mul)",
        "truediv = ops.truediv(sin, mul)",
        "mul_1 = ops.mul(load_2, truediv)",
        "reduction = ops.reduction(torch.float32, torch.float32, 'sum', mul_1)",
    )
    buffer = Buffer("buf0", "ComputedBuffer", Layout("FixedLayout", "", "cuda:0", dtype, (128,), (1,)))
    body = LoopBody("op0_loop_body", (), (), lines)
    leaf = SchedulerNode("op0", "SchedulerNode", (), LineSpan(1, 9), outputs=(buffer,), body=body)
    points = 128 * 1200 * 1200
    device = peak(("NVIDIA H200",), True, None)
    assert low < generated_ms([leaf], [points], 5_765_824, "", device, True, 1) < high
    # Of few elements the launch is all.
    assert generated_ms([leaf], [1000], 4000, "", device, True, 1) == GPU_KERNEL_MS
