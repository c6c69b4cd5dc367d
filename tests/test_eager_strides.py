"""Library calls timed with eager's strides too: the same values, the strides of the graph run op by op."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from inspector.explain.case import Case
from inspector.explain.gather import gather
from inspector.explain.rules import library_kernel_differs
from inspector.model.replay import KernelReplay, ReplayResult, Restrided, Timing
from inspector.readers.run import Run
from inspector.replay.protocol import GraphFiles, KernelPlan, PlannedCall, PlannedLeaf, ReplayOptions
from inspector.replay.spawn import replay_graph
from inspector.replay.store import from_json, to_json
from inspector.replay.worker.code.fx import FxProgram
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec
from inspector.replay.worker.reference.eager_strides import (
    NodeLayouts,
    as_in_eager,
    eager_layouts,
    layouts_of,
)
from inspector.replay.worker.reference.evaluate import record

STORIES = Path(__file__).parent.parent / "sample_runs" / "stories"
LAST = torch.channels_last


def spied(eager: list[Tensor], made: list[Tensor], *args: object, **kwargs: object) -> Any:
    """What the call with eager's strides is handed, and what has others; None where nothing has."""
    handed: list[Any] = []
    found = as_in_eager(
        lambda *own, **options: handed.extend((own, options)),
        args,
        kwargs,
        NodeLayouts(layouts_of(eager), layouts_of(made)),
    )
    if found is None:
        return None
    found[0]()
    return handed[0], handed[1], found[1]


# -- the call


def test_the_call_has_the_same_values_in_eagers_strides() -> None:
    image, weight, bias = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)
    compiled = image.to(memory_format=LAST)
    own, options, changed = spied([image, weight, bias], [], compiled, weight, bias=bias, groups=1)
    assert own[0].stride() == image.stride() and own[0].data_ptr() not in (
        image.data_ptr(),
        compiled.data_ptr(),
    )
    assert torch.equal(own[0], image) and torch.equal(own[1], weight) and torch.equal(options["bias"], bias)
    assert options["groups"] == 1
    assert changed == (Restrided((2, 3, 8, 8), compiled.stride(), image.stride()),)


def test_a_call_that_has_eagers_strides_is_not_made_twice() -> None:
    image, weight = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 1, 1)
    assert spied([image, weight], [], image, weight) is None
    # Strides of a dimension of one element are no layout.
    assert spied([weight], [], weight.to(memory_format=LAST)) is None


def test_what_a_library_writes_is_laid_out_as_in_eager_too() -> None:
    a, b, out = torch.randn(4, 6), torch.randn(6, 5), torch.empty(5, 4).t()
    own, options, changed = spied([a, b], [a @ b], a, b, out=out)
    assert options["out"].stride() == (5, 1) and torch.equal(own[0], a)
    assert changed == (Restrided((4, 5), (1, 4), (5, 1)),)


def test_which_tensor_is_which_must_be_known() -> None:
    """A bias that compiled code expands to the size of a factor: eager has one tensor of that size."""
    factor, bias = torch.randn(4, 4), torch.randn(4)
    assert spied([bias, factor], [], bias.expand(4, 4), factor.t()) is None
    # An expanded tensor is one row of memory in eager's call as well.
    own, _, changed = spied([bias.expand(3, 4)], [], bias.expand(3, 4).contiguous())
    assert own[0].stride() == (0, 1) and torch.equal(own[0], bias.expand(3, 4)) and len(changed) == 1


# -- what eager has

BACKWARD = """
import torch
class Repro(torch.nn.Module):
    def forward(self, primals_1, relu, tangents_1):
        mul = torch.ops.aten.mul.Tensor(tangents_1, relu)
        convolution = torch.ops.aten.convolution.default(mul, primals_1, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        return (convolution,)
"""  # noqa: E501


def test_a_backward_graphs_activations_have_the_strides_that_its_forward_gives_in_eager(
    tmp_path: Path,
) -> None:
    (tmp_path / "fx_graph_runnable.py").write_text(BACKWARD)
    program = FxProgram(tmp_path / "fx_graph_runnable.py", "backward")
    last = torch.empty(2, 3, 8, 8).to(memory_format=LAST).stride()
    sizes = (((4, 3, 1, 1), (3, 1, 1, 1)), ((2, 3, 8, 8), last), ((2, 3, 8, 8), last))
    specs = [
        TensorSpec(size, stride, torch.float32, "cpu", number, 0)
        for number, (size, stride) in enumerate(sizes)
    ]
    inputs = Inputs(specs, 0)
    inputs.fill([Fill()] * 3)
    _, _, recording = record(program, inputs)
    assert eager_layouts(program, inputs, program.module, recording.layouts) == {}
    inputs.given = {1: torch.randn(2, 3, 8, 8).to(memory_format=LAST)}
    inputs.fill([Fill()] * 3)
    assert eager_layouts(program, inputs, program.module, recording.layouts) is recording.layouts
    inputs.given = {1: torch.randn(2, 3, 8, 8)}
    inputs.fill([Fill()] * 3)
    moved = eager_layouts(program, inputs, program.module, recording.layouts)
    strides = [layout[2] for layout in moved["mul"].given]
    assert strides == [last, torch.empty(2, 3, 8, 8).stride()]


FX = """
import torch
class Repro(torch.nn.Module):
    def forward(self, arg0_1, arg1_1, arg2_1):
        convolution = torch.ops.aten.convolution.default(arg0_1, arg1_1, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        mm = torch.ops.aten.mm.default(arg2_1, arg2_1)
        return (convolution, mm)
"""  # noqa: E501

CODE = """
import torch
from torch._inductor.select_algorithm import extern_kernels

def call(args):
    arg0_1, arg1_1, arg2_1 = args
    args.clear()
    buf0 = arg0_1.to(memory_format=torch.channels_last)
    buf1 = extern_kernels.convolution(buf0, arg1_1, stride=(1, 1), padding=(0, 0), dilation=(1, 1), transposed=False, output_padding=(0, 0), groups=1, bias=None)
    buf2 = torch.empty_strided((6, 6), (6, 1))
    extern_kernels.mm(arg2_1, arg2_1, out=buf2)
    return (buf1, buf2)

def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((2, 3, 8, 8), (192, 64, 8, 1), device='cpu', dtype=torch.float32)
    arg1_1 = rand_strided((4, 3, 3, 3), (27, 9, 3, 1), device='cpu', dtype=torch.float32)
    arg2_1 = rand_strided((6, 6), (6, 1), device='cpu', dtype=torch.float32)
    return [arg0_1, arg1_1, arg2_1]
"""  # noqa: E501


def planned(index: int, kernel: str, buffers: tuple[str, ...], node: str) -> PlannedCall:
    line = next(number for number, each in enumerate(CODE.split("\n"), 1) if f"{kernel}(" in each)
    return PlannedCall(index, kernel, "extern", line, buffers[-1:], buffers, (f"op{index}",), (node,), None)


def test_a_replay_times_both_and_json_has_them_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "output_code.py").write_text(CODE)
    (tmp_path / "fx_graph_runnable.py").write_text(FX)
    calls = (
        planned(0, "extern_kernels.convolution", ("buf0", "arg1_1", "buf1"), "convolution"),
        planned(1, "extern_kernels.mm", ("arg2_1", "buf2"), "mm"),
    )
    leaves = tuple(
        PlannedLeaf(f"op{call.index}", f"op{call.index}", (), None, None, call.buffers[:-1], call.outputs, {})
        for call in calls
    )
    plan = KernelPlan(calls, leaves, inputs=("arg0_1", "arg1_1", "arg2_1"), outputs=("buf1", "buf2"))
    files = replace(GraphFiles.of_folder(tmp_path), kernels=plan)
    result = replay_graph(files, ReplayOptions(whole=False, kernel_time_s=0.01, timeout_s=280))
    assert result.failure is None, (result.failure, result.log)
    convolution, product = result.kernels
    assert convolution.time is not None and convolution.time_eager_strides is not None
    image = (2, 3, 8, 8)
    assert convolution.restrided == (Restrided(image, (192, 1, 24, 3), (192, 64, 8, 1)),)
    assert product.time is not None and product.time_eager_strides is None and not product.restrided
    data = json.loads(json.dumps(to_json(ReplayResult({}, (result,)))))
    told, other = data["graphs"][0]["kernels"]
    assert told["eager_strides_ms"] == convolution.time_eager_strides.median_ms
    assert told["restrided"] == [{"size": list(image), "compiled": [192, 1, 24, 3], "eager": [192, 64, 8, 1]}]
    assert other["eager_strides_ms"] is None and other["restrided"] == []
    assert from_json(data).graphs[0].kernels[0] == convolution


# -- what is said of it

IMAGE = Restrided((4, 3, 192, 192), (110592, 1, 576, 3), (110592, 36864, 192, 1))


@pytest.fixture(scope="module")
def resnet() -> Case:
    return gather(Run.open(STORIES / "resnet_inference" / "run.tar.xz"))


def told(case: Case, ratios: Sequence[float | None], restrided: Restrided = IMAGE, name: str = "") -> Case:
    """Its convolutions, each 10 ms long, take these parts of that with eager's strides; called `name`."""
    graph = case.graphs[0]
    kept = [launch for launch in graph.launches if launch.name == "extern_kernels.convolution"]
    launches = [
        replace(
            launch,
            ms=10.0,
            measured=True,
            of_eager_strides=ratio,
            restrided=(restrided,) if ratio is not None else (),
            call=replace(launch.call, kernel=name or launch.name),
        )
        for launch, ratio in zip(kept, ratios, strict=False)
    ]
    return replace(case, graphs=(replace(graph, launches=tuple(launches), runs=1.0),), sides=None)


def test_convolutions_that_channels_last_makes_slower_are_told_with_both_times(resnet: Case) -> None:
    case = told(resnet, (0.25, 0.9, None))
    (finding,) = library_kernel_differs.find(case)
    assert "20.0 ms with the strides that compiled code gives, 11.5 ms with eager's" in finding.title
    assert finding.cost_ms == pytest.approx(8.5) and finding.how == "replayed"
    assert [claim.ms[0] for claim in finding.claims] == pytest.approx([7.5, 1.0])
    assert finding.trial is not None and finding.trial.label == "layout_optimization=False"
    assert any(
        "10.0 ms, with eager's strides 2.50 ms: [4, 3, 192, 192]" in item.text for item in finding.evidence
    )


def test_a_setting_that_costs_others_more_is_not_advised(resnet: Case) -> None:
    """Without the layout optimisation the second convolution would lose what the first wins."""
    (finding,) = library_kernel_differs.find(told(resnet, (0.25, 2.0)))
    assert finding.trial is None and "custom_op" in finding.advice and finding.cost_ms == pytest.approx(7.5)
    (whole,) = library_kernel_differs.find(told(resnet, (0.25, 1.25)))
    assert whole.trial is not None and whole.cost_ms == pytest.approx(5.0)


def test_what_the_layout_optimisation_did_not_do_is_not_laid_to_it(resnet: Case) -> None:
    transposed = Restrided((64, 32), (1, 64), (32, 1))
    (finding,) = library_kernel_differs.find(told(resnet, (0.5,), transposed, "extern_kernels.mm"))
    assert finding.trial is None and finding.advice.startswith("call mm in a torch.library.custom_op")


def test_nothing_is_said_of_strides_that_are_equal_or_no_faster(resnet: Case) -> None:
    assert not list(library_kernel_differs.find(told(resnet, (None, None))))
    assert not list(library_kernel_differs.find(told(resnet, (1.5, None))))


def test_a_difference_within_what_both_spread_is_none() -> None:
    kernel = KernelReplay("extern_kernels.mm", 0, "match", time=Timing(10.0, 1.0, 7))
    assert replace(kernel, time_eager_strides=Timing(7.0, 1.0, 7)).of_eager_strides == pytest.approx(0.7)
    assert replace(kernel, time_eager_strides=Timing(14.0, 1.0, 7)).of_eager_strides == pytest.approx(1.4)
    for close in (Timing(8.5, 1.0, 7), Timing(11.0, 0.5, 7), None):
        assert replace(kernel, time_eager_strides=close).of_eager_strides is None
