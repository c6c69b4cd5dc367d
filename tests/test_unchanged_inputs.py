"""Arguments that stay the same from run to run: what the recorder sees of them, and what is said of it."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from capturing import captured, own_folder, script  # noqa: F401

from inspector.capture.recorder.same_inputs import EACH_RUN, SameInputs
from inspector.explain.case import Case, GraphCase
from inspector.explain.estimate import peak
from inspector.explain.gather import LEAST_SEEN, gather, same_inputs
from inspector.explain.in_vain import leaf_parts, not_computed_ms, read_instead_ms
from inspector.explain.rules import constant_work, unchanged_inputs
from inspector.explain.times import Times
from inspector.model.account import Interval
from inspector.model.calls import GraphRuns
from inspector.model.fx import FxGraph
from inspector.model.source import SourceLocation
from inspector.model.waste import Evaluation
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run


class Tensor:
    """Stands for torch's: a version that writing counts up."""

    def __init__(self, inference: bool = False) -> None:
        self._version = 0
        self._inference = inference

    def is_inference(self) -> bool:
        return self._inference


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    core = SimpleNamespace(DisableTorchFunction=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, _C=core))


@pytest.mark.usefixtures("torch")
def test_the_same_is_the_same_tensor_that_nobody_has_written_to() -> None:
    data, written, counted = Tensor(), Tensor(), Tensor(inference=True)
    same = SameInputs()
    for number in range(4):
        # A fresh tensor may lie where the last one did; numbers are compared.
        same.look([data, written, Tensor(), 3, number, counted, None])
    assert same.as_json() == {"seen": 4, "given": 7, "arguments": [0, 1, 3]}
    written._version += 1
    same.look([data, written, Tensor(), 3, 9, counted, None])
    assert same.left == [0, 3]
    # Fewer arguments than before are others.
    same.look([data])
    assert same.left == [0]


@pytest.mark.usefixtures("torch")
def test_later_runs_are_looked_at_now_and_then() -> None:
    same, data = SameInputs(), Tensor()
    for _ in range(40):
        same.look([data])
    assert same.seen == EACH_RUN + 2, "16 and 32"


FX = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[4096, 512]", arg1_1: "f32[512, 512]"):
        # File: /home/user/fit.py:8 in f, code: table = torch.lgamma(goals)
        lgamma: "f32[4096, 512]" = torch.ops.aten.lgamma.default(arg0_1);  arg0_1 = None
        mm: "f32[4096, 512]" = torch.ops.aten.mm.default(lgamma, arg1_1);  lgamma = arg1_1 = None
        return (mm,)
"""


def graph() -> FxGraph:
    return parse_fx_graph(FX, "fx")


def test_inputs_are_named_by_their_place_where_enough_runs_were_looked_at() -> None:
    runs = GraphRuns("g", "p", 40, (), seen=LEAST_SEEN, given=2, same=(0, 9))
    assert same_inputs(graph(), runs) == {"arg0_1"}
    assert not same_inputs(graph(), replace(runs, seen=LEAST_SEEN - 1))
    assert not same_inputs(graph(), replace(runs, given=3))
    assert not same_inputs(graph(), None) and not same_inputs(None, runs)


def test_launches_of_unchanged_inputs_alone_are_claimed(corpus: Path) -> None:
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (own,) = case.graphs
    first = own.launches[0]
    launches = (replace(first, fx=("lgamma",), ms=2.0), replace(first, fx=("mm",), ms=3.0))
    artifacts = replace(own.artifacts, fx_after=graph(), phase="inference")

    def told(*same: str, given: str = "L_goals_") -> Case:
        changed = replace(own, artifacts=artifacts, launches=launches, runs=1.0, same_inputs=frozenset(same))
        text = FX.replace("arg0_1", given)
        traced = {own.artifacts.compile_id or "": parse_fx_graph(text, "fx")}
        return replace(case, graphs=(changed,), traced=lambda: traced)

    (finding,) = unchanged_inputs.find(told("arg0_1"))
    assert finding.title.startswith("2.00 ms a call in lgamma of inputs that were the same, and unchanged,")
    assert finding.claims[0].ms == (1.0, 2.0)
    assert (finding.evidence[0].path, finding.evidence[0].line) == ("/home/user/fit.py", 8)
    assert finding.advice == "compute it once, before the loop, and hand over the result"
    assert finding.trial is None, "which is for the parameters of a module"
    (weights,) = unchanged_inputs.find(told("arg0_1", given="L_self_modules_net_parameters_weight_"))
    assert "freezing = True" in weights.advice and weights.trial is not None
    assert "remove_parametrizations" not in weights.advice
    (norm,) = unchanged_inputs.find(in_torch(told("arg0_1")))
    assert norm.advice.startswith("take the parametrization away")
    assert not list(unchanged_inputs.find(told("arg1_1"))), "nothing follows from the weights alone"
    assert not list(unchanged_inputs.find(told("arg0_1", "arg1_1"))), "the loop repeats one call"
    assert not list(unchanged_inputs.find(told()))


def test_a_gpu_that_waits_for_memory_is_no_faster_for_what_is_read_instead(corpus: Path) -> None:
    """Index maps of a semi-Lagrangian step on an H200: they follow from velocities alone, and reading them
    takes as long as the kernels did, which move their bytes at the machine's rate."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (own,) = case.graphs
    fx = parse_fx_graph(MAPS, "fx")
    (launch, *_) = [item for item in own.launches if item.role == "generated"]
    (group, *_) = own.groups_of(launch)
    launch = replace(launch, fx=("remainder", "gather", "mul"), bytes=1 << 29)
    item = Evaluation("remainder", group.name, ("remainder",), (), 1 << 26, 1 << 26, 1, whole=0.5)
    work = dict.fromkeys(own.fusion.work, 0.0) | {group.name: 4.0 * (1 << 26)}
    graph = replace(
        own,
        gpu=True,
        runs=1.0,
        launches=(launch,),
        artifacts=replace(own.artifacts, fx_after=fx),
        fusion=replace(own.fusion, evaluations=(item,), work=work),
    )
    constant = frozenset({"arg0_1", "remainder"})
    # The rules say it where something is saved.
    told = replace(case, times=Times(compiled_ms=0.3, calls=40, steady_calls=39))
    table = replace(item, operator="exp", fx=("exp",))
    made = replace(
        graph,
        artifacts=replace(own.artifacts, fx_after=parse_fx_graph(TABLE, "fx")),
        fusion=replace(graph.fusion, evaluations=(table,)),
    )
    for rule, of, names in (
        (unchanged_inputs, replace(graph, same_inputs=frozenset({"arg0_1"})), launch.fx),
        (constant_work, made, ("exp", "mul")),
    ):
        for gpu in (True, False):
            short = replace(launch, ms=0.2, bytes=1 << 20, fx=names)
            on = replace(told, graphs=(replace(of, gpu=gpu, launches=(short,)),))
            assert bool([*rule.find(on)]) != gpu, rule

    def saved(ms: float, on: GraphCase = graph) -> Interval:
        return read_instead_ms(case, on, replace(launch, ms=ms), 0.5, constant)

    assert saved(0.2) == (0.0, 0.0)
    assert saved(100.0)[1] < 100.0 * 0.5, "no more than its instructions"
    long = replace(graph, fusion=replace(graph.fusion, work={group.name: 400.0 * (1 << 26)}))
    less = not_computed_ms(case, long, replace(launch, ms=100.0), 0.5, 200.0 * (1 << 26))
    assert less[1] - saved(100.0, long)[1] == pytest.approx(
        (1 << 29) / peak((), True, None).bytes_per_s * 1e3
    )
    cpu = saved(100.0, replace(graph, gpu=False))
    assert cpu == (cpu[1] / 2, cpu[1]) and 40.0 < cpu[1] <= 50.0, "whose caches are near"
    whole = replace(launch, fx=("remainder",))
    assert read_instead_ms(case, graph, replace(whole, ms=0.2), 1.0, constant) == (0.1, 0.2)


MAPS = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "i64[8192, 8192]", arg1_1: "f64[8192, 8192]"):
        remainder: "i64[8192, 8192]" = torch.ops.aten.remainder.Scalar(arg0_1, 8192);  arg0_1 = None
        gather: "f64[8192, 8192]" = torch.ops.aten.gather.default(arg1_1, 0, remainder);  remainder = None
        mul: "f64[8192, 8192]" = torch.ops.aten.mul.Tensor(gather, 2.0);  gather = None
        return (mul,)
"""


TABLE = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f64[8192, 8192]"):
        full: "f64[8192, 8192]" = torch.ops.aten.full.default([8192, 8192], 2.0)
        exp: "f64[8192, 8192]" = torch.ops.aten.exp.default(full);  full = None
        mul: "f64[8192, 8192]" = torch.ops.aten.mul.Tensor(arg0_1, exp);  arg0_1 = exp = None
        return (mul,)
"""


def test_weights_that_are_laid_out_for_a_library_are_claimed(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the graph's unchanged inputs alone: a convolution's own time is none of it."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (own,) = case.graphs
    launch = replace(own.launches[0], fx=("mm",), ms=2.0)
    artifacts = replace(own.artifacts, fx_after=graph(), phase="inference")
    changed = replace(
        own, artifacts=artifacts, launches=(launch,), runs=1.0, same_inputs=frozenset({"arg0_1"})
    )

    def laid(
        graph: GraphCase, constant: frozenset[str], inputs: frozenset[str] = frozenset()
    ) -> dict[int, float]:
        return {launch.call.index: 0.5} if inputs == {"arg0_1"} else {}

    monkeypatch.setattr(unchanged_inputs, "leaf_parts", laid)
    (finding,) = unchanged_inputs.find(replace(case, graphs=(changed,)))
    assert finding.title.startswith("1.00 ms a call in layouts for a library of inputs that were the same")


def in_torch(case: Case) -> Case:
    """With the line in a parametrization of torch's."""
    (own,) = case.graphs
    fx = own.artifacts.fx_after
    assert fx is not None
    path = "/usr/lib/python3.12/site-packages/torch/nn/utils/parametrizations.py"
    nodes = tuple(replace(node, source=SourceLocation(path, 327)) for node in fx.nodes)
    return replace(
        case, graphs=(replace(own, artifacts=replace(own.artifacts, fx_after=replace(fx, nodes=nodes))),)
    )


def test_a_loop_of_a_kernel_may_follow_from_weights_alone(corpus: Path) -> None:
    """Beside others: what the next convolution's weight is made of beside what this one reads."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (own,) = case.graphs
    every = {name for node in own.fusion.nodes for name in node.fx}
    parts = leaf_parts(own, frozenset(every))
    made = [parts[launch.call.index] for launch in own.launches if launch.role == "generated"]
    assert made and all(part == pytest.approx(1.0) for part in made), "library calls have no loops"
    assert not any(leaf_parts(own, frozenset()).values())
    # What only lays out a weight for a library that is called with it.
    given = frozenset(access.buffer for node in own.fusion.nodes for access in node.reads)
    called = tuple(replace(launch, role="library") for launch in own.launches)
    for inputs, part in ((given, 1.0), (frozenset[str](), 0.0)):
        laid = leaf_parts(replace(own, launches=called), frozenset(), inputs)
        assert max(laid.values()) == pytest.approx(part)
    some = [leaf_parts(own, frozenset(node.fx)) for node in own.fusion.nodes]
    assert any(0.0 < part < 1.0 for parts in some for part in parts.values())


FIT = """
import torch

torch.manual_seed(0)
goals = torch.randint(0, 6, (200_000,)).double()
other = torch.rand(200_000, dtype=torch.float64)
level = torch.zeros(1, dtype=torch.float64, requires_grad=True)

@torch.compile
def loss(goals, other, level):
    rate = torch.exp(level) * other
    return (rate - goals * rate.log() + torch.lgamma(goals + 1)).mean()

for step in range(14):
    value = loss(goals, other, level)
    value.backward()
    with torch.no_grad():
        level -= 0.1 * level.grad
    level.grad = None
"""


@pytest.mark.slow
def test_a_fit_of_the_same_data_works_out_the_same_in_each_step() -> None:
    assert captured(script(FIT)).exit_code == 0
    case = gather(Run.open("run"))
    forward = next(item for item in case.graphs if item.artifacts.phase == "forward")
    assert len(forward.same_inputs) == 2, "the data, and not what is fitted"
    # What the rule says of it is no matter of how fast this machine is: the launches take the call.
    slow = tuple(replace(launch, ms=case.wall_ms) for launch in forward.launches)
    (finding,) = unchanged_inputs.find(replace(case, graphs=(replace(forward, launches=slow),)))
    assert "lgamma" in finding.title
    assert any(item.line == 12 for item in finding.evidence)
