"""Joining by small profiles made by hand: what order settles, what it leaves open, what autograd says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from build import artifacts, call, code, fx_graph, fx_node

from inspector.analysis.blocks import Attributed, GraphOfBlocks, _as_often, join
from inspector.analysis.call_nodes import (
    CallNodes,
    core_nodes,
    nodes_of_calls,
    part_of_program,
    split_program,
)
from inspector.analysis.compiled_side import (
    CompiledGraphCalls,
    behind_regions,
    place_compiled,
    waiting_operators,
)
from inspector.analysis.eager_side import Place, place_eager, places_of
from inspector.analysis.profile_work import length_ms, shared_ms, work_of
from inspector.analysis.program_calls import program_graph
from inspector.analysis.side_totals import DISPATCH, GAPS, GUARDS, OPERATORS, WRAPPER, totals
from inspector.analysis.two_sides import HOST, two_sided_ledger
from inspector.explain.block_words import SAME_KERNEL, change
from inspector.model.links import CallLink, Linkage
from inspector.model.profile import DeviceEvent, HostEvent, Profile
from inspector.model.source import SourceLocation
from inspector.model.two_sides import (
    Block,
    Joined,
    KernelTime,
    Phase,
    ProgramCall,
    ProgramGraph,
    SideTotals,
)
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.program_graphs import program_of

ATTENTION = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 2, 8]"):
        l_x_ = L_x_

        # File: model.py:7 in forward, code: y, _ = attend(x)
        multi_head_attention_forward = torch.nn.functional.multi_head_attention_forward(l_x_)
        x_1: "f32[4, 2, 8]" = multi_head_attention_forward[0];  multi_head_attention_forward = None

        # File: model.py:8 in forward, code: return y[0]
        getitem: "f32[2, 8]" = x_1[0];  x_1 = None
        return (getitem,)
"""


CHECKPOINT = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 8]"):
        l_x_ = L_x_

        # File: model.py:7 in forward, code: for block in blocks: x = checkpoint(block, x)
        wrap_body_0 = self.wrap_body_0
        tag_activation_checkpoint = torch.ops.higher_order.tag_activation_checkpoint(wrap_body_0, l_x_)
        x: "f32[4, 8]" = tag_activation_checkpoint[0];  tag_activation_checkpoint = None

        # File: model.py:8 in forward, code: return torch.cond(x.sum() > 0, up, down, (x,))
        cond_true_0 = self.cond_true_0
        cond = torch.ops.higher_order.cond(x, cond_true_0, cond_true_0, [x])
        getitem: "f32[4, 8]" = cond[0];  cond = None
        return (getitem,)

    class wrap_body_0(torch.nn.Module):
        def forward(self, l_x_: "f32[4, 8]"):
            # File: model.py:3 in forward, code: return x + torch.relu(x)
            relu: "f32[4, 8]" = torch.relu(l_x_)
            wrap_body_0 = self.wrap_body_0
            wrap = torch.ops.higher_order.wrap(wrap_body_0, relu)
            add: "f32[4, 8]" = l_x_ + relu;  l_x_ = relu = None
            return (add,)

        class wrap_body_0(torch.nn.Module):
            def forward(self, relu: "f32[4, 8]"):
                return (relu,)

    class cond_true_0(torch.nn.Module):
        def forward(self, x: "f32[4, 8]"):
            exp: "f32[4, 8]" = torch.exp(x);  x = None
            return (exp,)
"""


WRITES = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 8]", L_rows_: "f32[4, 8]"):
        l_x_ = L_x_
        l_rows_ = L_rows_
        tanh: "f32[4, 8]" = torch.tanh(l_x_);  l_x_ = None
        l_rows_[(slice(None, None, None), slice(None, 8, None))] = tanh;  setitem = l_rows_;  setitem = None
        l_rows_[(slice(None, None, None), 0)] = 1.0;  setitem_1 = l_rows_;  setitem_1 = None
        return (l_rows_,)
"""


def test_writes_into_a_part_are_calls_of_the_program_too() -> None:
    """The last calls of a graph: what follows the last one that is known is a loss, and outside."""
    assert program_of("no graph at all", "").nodes == ()
    program = program_graph("0/0", program_of(WRITES, ""))
    assert [call.operator for call in program.calls] == ["tanh", "setitem", "setitem"]
    names = ["tanh", "slice", "copy_", "select", "fill_", "mse_loss"]
    host = tuple(_operator(f"aten::{name}", 10.0 * i) for i, name in enumerate(names))
    parts = _parts(Profile("", host, ()), program)
    assert parts["aten::copy_"] == (1,) and parts["aten::fill_"] == (2,) and parts["aten::mse_loss"] is None


def test_a_checkpoints_calls_stand_in_its_place_and_a_branchs_do_not() -> None:
    calls = program_graph("0/0", program_of(CHECKPOINT, "")).calls
    own = [
        (call.name, call.source.line)
        for call in calls
        if call.operator in ("relu", "add", "exp") and call.source
    ]
    assert own == [("wrap_body_0.relu", 3), ("wrap_body_0.add", 3)]
    host = tuple(_operator(f"aten::{name}", 10.0 * i) for i, name in enumerate(("relu", "add", "sum")))
    placed = place_eager(Profile("", host, ()), [program_graph("0/0", program_of(CHECKPOINT, ""))])
    names = [calls[part].name for number in (0, 1) for part in placed.places[number].parts]
    assert names == ["wrap_body_0.relu", "wrap_body_0.add"]


def _operator(name: str, start: float, sequence: int | None = None, forward_thread: int = 0) -> HostEvent:
    return HostEvent("operator", name, 1, start, 5.0, sequence=sequence, forward_thread=forward_thread)


def _program(*operators: str) -> ProgramGraph:
    return ProgramGraph("0/0", tuple(ProgramCall(f"n{i}", name, None) for i, name in enumerate(operators)))


def _parts(profile: Profile, program: ProgramGraph) -> dict[str, tuple[int, ...] | None]:
    places = place_eager(profile, [program]).places
    return {
        profile.host[position].name: place.parts if place.graph is not None else None
        for position, place in places.items()
    }


def test_order_settles_what_names_leave_open() -> None:
    names = ["aten::conv2d", "aten::upsample_nearest2d", "aten::somewhere", "aten::relu", "aten::mse_loss"]
    profile = Profile("", tuple(_operator(name, 10.0 * i) for i, name in enumerate(names)), ())
    assert _parts(profile, _program("conv2d", "interpolate", "mystery", "relu")) == {
        "aten::conv2d": (0,),
        "aten::upsample_nearest2d": (1,),
        "aten::somewhere": (2,),
        "aten::relu": (3,),
        # After the last call of the graph: a loss.
        "aten::mse_loss": None,
    }


def test_several_ways_are_not_decided() -> None:
    names = ["aten::conv2d", "aten::a", "aten::b", "aten::c", "aten::relu"]
    profile = Profile("", tuple(_operator(name, 10.0 * i) for i, name in enumerate(names)), ())
    parts = _parts(profile, _program("conv2d", "x", "y", "relu"))
    assert parts["aten::a"] == parts["aten::b"] == parts["aten::c"] == (1, 2)
    # With no call between, it is a part of the one before.
    assert _parts(profile, _program("conv2d", "relu"))["aten::b"] == (0,)


def test_what_a_composite_runs_is_not_its_neighbours() -> None:
    """Attention transposes inside: the call behind it is the last of them, and of two passes each its own."""
    names = ["norm", "transpose", "linear", "transpose", "sdpa", "transpose", "add", "transpose"]
    host = tuple(_operator(f"aten::{name}", 10.0 * i) for i, name in enumerate(names * 2))
    program = _program("norm", "transpose", "attention", "transpose", "add")
    placed = place_eager(Profile("", host, ()), [program])
    parts = [placed.places[number].parts for number in range(len(host))]
    assert parts[:8] == parts[8:] == [(0,), (1,), (2,), (2,), (2,), (3,), (4,), ()]


def test_a_number_over_a_tensor_is_its_reciprocal_times_the_number() -> None:
    """Tensor.__rtruediv__: eager runs two operators, and the products behind are of the lines behind."""
    text = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4]", L_y_: "f32[4]"):
        l_x_ = L_x_
        l_y_ = L_y_
        sqrt: "f32[4]" = torch.sqrt(l_x_);  l_x_ = None
        gain: "f32[4]" = 1.0 / sqrt;  sqrt = None
        one: "f32[4]" = l_y_ * gain;  gain = None
        two: "f32[4]" = one * 2;  one = None
        left: "f32[4]" = 3 - two;  two = None
        half: "f32[4]" = left / 2.0;  left = None
        return (half,)
"""
    program = program_graph("0/0", parse_fx_graph(text, "g"))
    assert [(call.operator, call.behind) for call in program.calls] == [
        ("sqrt", ()), ("reciprocal", ("mul",)), ("mul", ()), ("mul", ()), ("sub", ()), ("div", ()),
    ]  # fmt: skip
    names = ["sqrt", "reciprocal", "mul", "mul", "mul", "rsub", "div"]
    host = tuple(_operator(f"aten::{name}", 10.0 * i) for i, name in enumerate(names * 2))
    placed = place_eager(Profile("", host, ()), [program])
    parts = [placed.places[number].parts for number in range(len(host))]
    assert parts[:7] == parts[7:] == [(0,), (1,), (1,), (2,), (3,), (4,), (5,)]
    assert placed.calls == 2
    # A number less a tensor is known by its name: what two others behind it do is the next call's.
    names = ["aten::mul", "aten::rsub", "aten::a", "aten::b", "aten::relu"]
    profile = Profile("", tuple(_operator(name, 10.0 * i) for i, name in enumerate(names)), ())
    found = _parts(profile, _program("mul", "sub", "mystery", "relu"))
    assert (found["aten::rsub"], found["aten::a"], found["aten::b"]) == ((1,), (2,), (2,))


def test_a_librarys_call_is_its_operator_by_another_name_too() -> None:
    nodes = [
        fx_node("x", "torch.ops.aten.mul.Tensor"),
        fx_node("put", "torch.ops.aten.index_put.default"),
        fx_node("add", "torch.ops.aten.scatter_add.default"),
    ]
    for kernel, name in (("aten.index_put_.default", "put"), ("aten.scatter_reduce_.two", "add")):
        assert core_nodes(call(0, kernel, "fallback"), nodes) == (name,)


def test_a_backward_belongs_to_the_last_operator_with_its_number() -> None:
    """`add_` on a counter of batches reads autograd's number and makes no node; the next one does."""
    host = (
        _operator("aten::add_", 0, sequence=5),
        _operator("aten::batch_norm", 10, sequence=5),
        _operator("aten::relu", 20, sequence=6),
        _operator("autograd::engine::evaluate_function: ReluBackward0", 30, sequence=6, forward_thread=1),
        _operator("autograd::engine::evaluate_function: BatchNorm0", 40, sequence=5, forward_thread=1),
        _operator("autograd::engine::evaluate_function: MeanBackward0", 50, sequence=7, forward_thread=1),
    )
    places = place_eager(Profile("", host, ()), [_program("add_", "batch_norm", "relu")]).places
    assert [places[position].parts for position in (3, 4, 5)] == [(2,), (1,), ()]
    assert [places[position].phase for position in (1, 4)] == ["forward", "backward"]


@pytest.mark.parametrize(
    ("around", "thread", "parts"),
    [
        ("ConvolutionBackward0", 2, ()),
        ("ConvolutionBackward0", 1, ()),
        ("torch::autograd::CheckpointFunctionBackward", 2, (0,)),
    ],
)
def test_a_backward_of_a_backward_is_none_of_the_forwards(
    around: str, thread: int, parts: tuple[int, ...]
) -> None:
    """A gradient penalty's first backward is recorded by the engine's thread, whose numbers the program's
    has too; a checkpoint's forward runs again there, and its backward is the program's."""
    engine = "autograd::engine::evaluate_function: "
    second, number = 2 if thread == 2 else 1, 6 if thread == 2 else 9
    host = (
        _operator("aten::conv2d", 0, sequence=5),
        _operator("aten::relu", 10, sequence=6),
        HostEvent("operator", engine + "ReluBackward0", thread, 20, 5, sequence=6, forward_thread=1),
        HostEvent("operator", engine + around, thread, 30, 20, sequence=5, forward_thread=1),
        HostEvent("operator", "aten::convolution_backward", thread, 31, 5, 3, sequence=number),
        HostEvent("operator", engine + "Again0", thread, 60, 5, sequence=number, forward_thread=second),
    )
    places = place_eager(Profile("", host, ()), [_program("conv2d", "relu")]).places
    assert [places[position].parts for position in (2, 3, 5)] == [(1,), (0,), parts]


def test_what_a_program_does_between_its_calls_is_no_reason_to_lose_them() -> None:
    """A matcher or an optimizer runs thousands of operators under names that the program's calls have too."""
    once = [HostEvent("annotation", "inspector: call", 1, 0, 100), _operator("aten::conv2d", 10)]
    once += [_operator("aten::relu", 20), *(_operator("aten::relu", 200.0 + i) for i in range(4000))]
    host = [replace(event, start=event.start + 10_000 * turn) for turn in range(3) for event in once]
    steps = [HostEvent("annotation", f"ProfilerStep#{turn}", 1, 10_000 * turn, 9_000) for turn in range(3)]
    profile = Profile("", (*host, *steps), ())
    placed = place_eager(profile, [_program("conv2d", "relu")])
    own = [place.parts for place in placed.places.values() if place.graph is not None]
    assert own == [(0,), (1,)] * 3


@pytest.mark.parametrize("again", ["ReluBackward0", "TanhBackward0"])
def test_a_backward_of_before_the_profile_is_placed_by_the_next_pass(again: str) -> None:
    """A profile may begin between forward and backward: the same names come again so many numbers later."""
    engine = "autograd::engine::evaluate_function: "

    def backward(start: float, *numbered: tuple[str, int]) -> list[HostEvent]:
        return [
            _operator(engine + name, start + place, sequence, forward_thread=1)
            for place, (name, sequence) in enumerate(numbered)
        ]

    host = (
        *backward(0, ("MeanBackward0", 12), (again, 11), ("ConvolutionBackward0", 10)),
        _operator("aten::conv2d", 10, sequence=30),
        _operator("aten::relu", 20, sequence=31),
        *backward(30, ("MeanBackward0", 32), ("ReluBackward0", 31), ("ConvolutionBackward0", 30)),
    )
    places = place_eager(Profile("", host, ()), [_program("conv2d", "relu")]).places
    expected = [(), (1,) if again == "ReluBackward0" else (), (0,)]
    assert [places[position].parts for position in range(3)] == expected


@pytest.mark.parametrize(
    ("kernels", "parts", "ambiguous"),
    [
        # A fill comes with the library call that follows it.
        ("triton_a memset32 gemm1 gemm2 triton_b", [(0,), (1,), (1,), (2,), (3,)], False),
        ("triton_a gemm1 splitk gemm2 triton_b", [(0,), (1, 2), (1, 2), (1, 2), (3,)], True),
    ],
)
def test_a_cuda_graphs_kernels_come_in_the_wrappers_order(
    kernels: str, parts: list[tuple[int, ...]], ambiguous: bool
) -> None:
    region = HostEvent("operator", "Torch-Compiled Region: 0/0", 1, 0, 100)
    run = HostEvent("annotation", "## Call CompiledFxGraph key ##", 1, 10, 80, parent=0)
    launch = HostEvent("runtime", "cudaGraphLaunch", 1, 20, 10, parent=1, correlation=9)
    device = tuple(
        DeviceEvent("kernel", name, 0, 7, 30.0 + i, 1.0, operator=0, launch=2)
        for i, name in enumerate(kernels.split())
    )
    profile = Profile("", (region, run, launch), device)
    wrapper = (
        call(0, "triton_a", "triton"),
        call(1, "extern_kernels.mm", "extern"),
        call(2, "extern_kernels.mm", "extern"),
        call(3, "triton_b", "triton"),
    )
    graph = CompiledGraphCalls("g", "0/0", "forward", wrapper, {})
    work, _ = work_of(profile)
    placed = place_compiled(profile, work, {"key": graph})
    assert [place.parts for place in placed.places] == parts
    assert bool(placed.notes) == ambiguous
    # Times of single launches are known only where each kernel's launch is.
    assert bool(placed.launches) != ambiguous


def test_a_graph_compiled_again_with_a_kernel_less_is_known_by_the_rest_of_their_names() -> None:
    """pad_mm times a product with and without padding: the profiled run may have no copy before it."""
    kernels = ["addmm_0", *(f"relu_{number}" for number in range(1, 30))]
    compiled = [call(at, f"triton_poi_fused_{name}", "triton") for at, name in enumerate(kernels)]
    graph = CompiledGraphCalls("g", "0/0", "forward", tuple(compiled), {})
    host = [
        HostEvent("operator", "Torch-Compiled Region: 0/0", 1, 0, 900),
        HostEvent("annotation", "## Call CompiledFxGraph other ##", 1, 1, 800, parent=0),
    ]
    for number in range(29):
        host.append(
            HostEvent("operator", f"triton_poi_fused_relu_{number}", 1, 10.0 * number + 2, 5, parent=1)
        )
    profile = Profile("", tuple(host), ())
    placed = place_compiled(profile, work_of(profile)[0], {"key": graph}, {"0/0"})
    assert placed.notes == () and {place.graph for place in placed.places} == {"g"}
    assert [place.parts for place in placed.places] == [(number,) for number in range(1, 30)]


@pytest.mark.parametrize("key", ["key", "other"])
def test_a_users_kernel_is_numbered_by_the_wrapper_and_the_host_but_not_by_the_device(key: str) -> None:
    """torch/_inductor/codegen/wrapper.py: define_user_defined_triton_kernel; also where the profiled run
    compiled it under another key."""
    names = ("product_0", "product_1", "triton_poi_fused_relu_0")
    functions = dict.fromkeys(names[:2], "product")
    wrapper = tuple(call(at, name, "triton" if at == 2 else "user") for at, name in enumerate(names))
    graph = CompiledGraphCalls("g", "0/0", "forward", wrapper, functions)
    host = [
        HostEvent("operator", "Torch-Compiled Region: 0/0", 1, 0, 900),
        HostEvent("annotation", f"## Call CompiledFxGraph {key} ##", 1, 1, 800, parent=0),
        *(HostEvent("operator", name, 1, 10.0 * at + 2, 5, parent=1) for at, name in enumerate(names)),
        HostEvent("runtime", "cudaGraphLaunch", 1, 90, 5, parent=1, correlation=9),
    ]
    for operators, launch in (((2, 3, 4), -1), ((1, 1, 1), 5)):
        device = tuple(
            DeviceEvent(
                "kernel", functions.get(name, name), 0, 7, 100.0 + at, 1.0, operator=at_host, launch=launch
            )
            for at, (name, at_host) in enumerate(zip(names, operators, strict=True))
        )
        profile = Profile("", tuple(host), device)
        placed = place_compiled(profile, work_of(profile)[0], {"key": graph}, {"0/0"})
        assert placed.notes == ()
        assert [(place.graph, place.parts) for place in placed.places] == [("g", (at,)) for at in range(3)]


def test_code_that_two_regions_share_is_of_the_region_that_runs_it() -> None:
    """Two equal graphs: Inductor compiles one, and the cache gives its code to the other."""
    host: list[HostEvent] = []
    for number, compile_id in enumerate(("0/0", "1/0")):
        start = 100.0 * number
        region = len(host)
        host += [
            HostEvent("operator", f"Torch-Compiled Region: {compile_id}", 1, start, 90),
            HostEvent("annotation", "## Call CompiledFxGraph key ##", 1, start + 1, 80, parent=region),
            HostEvent("operator", "aten::mm", 1, start + 2, 10.0 * (number + 1), parent=region + 1),
        ]
    eager = (HostEvent("operator", "aten::mm", 1, 0, 11), HostEvent("operator", "aten::mm", 1, 20, 21))
    programs = {
        compile_id: ProgramGraph(compile_id, (ProgramCall("y", "mm", SourceLocation("model.py", line)),))
        for compile_id, line in (("0/0", 1), ("1/0", 2))
    }
    code = CompiledGraphCalls("g", "0/0", "forward", (call(0, "extern_kernels.mm", "extern"),), {})
    graphs = [GraphOfBlocks("g", name, "forward", {0: CallNodes((0,), True)}) for name in programs]
    profile = Profile("", tuple(host), ())
    work, _ = work_of(profile)
    placed = place_compiled(profile, work, {"key": code}, programs.keys())
    assert (placed.calls, placed.runs) == (1, (("g", 2.0),))
    profile = Profile("", eager, ())
    work_before, _ = work_of(profile)
    before = place_eager(profile, [programs["0/0"], programs["1/0"]])
    blocks = join(
        Attributed(work_before, places_of(profile, work_before, before), before.calls),
        Attributed(work, placed.places, placed.calls),
        programs,
        graphs,
    )
    times = {block.lines[0].line: (block.eager_ms, block.compiled_ms) for block in blocks}
    assert times == {1: (0.011, 0.010), 2: (0.021, 0.020)}
    assert {block.graph for block in blocks} == {"g"}


def test_what_runs_between_two_graphs_is_outside_on_both_sides() -> None:
    """`x[keep]` breaks the graph, and `x[0]` begins the next one: in eager both are indexing."""
    host: list[HostEvent] = []
    for call_number in range(2):
        start, marked = 1000.0 * call_number, len(host)
        host.append(HostEvent("annotation", "inspector: call", 1, start, 500))
        for number, after in ((0, ["aten::index"]), (1, ["aten::sort", "aten::select"])):
            region, begun = len(host), start + 200 * number
            name = f"Torch-Compiled Region: {number}/0"
            host += [
                HostEvent("operator", name, 1, begun, 190, parent=marked),
                HostEvent(
                    "annotation", f"## Call CompiledFxGraph key{number} ##", 1, begun + 1, 50, parent=region
                ),
                HostEvent("operator", f"triton_{number}", 1, begun + 2, 10, parent=region + 1),
            ]
            for place, operator in enumerate(after):
                host += [
                    HostEvent("operator", operator, 1, begun + 60 + 50 * place, 40, parent=region),
                    HostEvent("operator", "aten::nonzero", 1, begun + 70 + 50 * place, 9, parent=len(host)),
                ]
        # Beside the call.
        host.append(HostEvent("operator", "aten::item", 1, start + 700, 10))
    profile = Profile("", tuple(host), ())
    codes = {
        f"key{number}": CompiledGraphCalls(f"g{number}", f"{number}/0", "forward", (), {})
        for number in range(2)
    }
    placed = place_compiled(profile, work_of(profile)[0], codes, {"0/0", "1/0"})
    assert placed.regions == ("0/0", "1/0")
    behind = behind_regions(profile, 2)
    assert behind == (("aten::index",), ("aten::sort", "aten::select"))
    names = ["aten::ge", "aten::index", "aten::select", "aten::sub", "aten::sort", "aten::select"]
    once = [HostEvent("annotation", "inspector: call", 1, 0, 90), *map(_operator, names, range(10, 90, 10))]
    eager = [replace(event, start=event.start + 1000.0 * turn) for turn in range(2) for event in once]
    steps = [HostEvent("annotation", f"ProfilerStep#{turn}", 1, 1000.0 * turn, 900) for turn in range(2)]
    graphs = [_program("ge"), replace(_program("getitem", "sub"), compile_id="1/0")]
    places = place_eager(Profile("", (*eager, *steps), ()), graphs, 1.0, behind).places
    once_placed = [("0/0", (0,)), (None, ()), ("1/0", (0,)), ("1/0", (1,)), (None, ()), (None, ())]
    assert [(place.graph, place.parts) for _, place in sorted(places.items())] == once_placed * 2


def test_of_the_same_calls_eager_runs_the_graphs_that_compiled_code_ran() -> None:
    """Two calls that train and one that evaluates, behind which no third one trains."""
    turns = [100.0 * turn for turn in range(3)]
    host = [HostEvent("annotation", "inspector: call", 1, start, 80) for start in turns]
    host += [
        _operator(f"aten::{name}", start + at) for start in turns for name, at in (("relu", 1), ("mul", 20))
    ]
    host += [
        HostEvent("annotation", f"ProfilerStep#{turn}", 1, start, 90) for turn, start in enumerate(turns)
    ]
    trained, evaluated = _program("relu", "mul"), replace(_program("relu"), compile_id="0/1")
    graphs = [trained, trained, evaluated]
    for known, ran in ((3, ["0/0"] * 4 + ["0/1", None]), (None, ["0/0"] * 4 + ["0/1", "0/0"])):
        places = place_eager(Profile("", tuple(host), ()), graphs, 3.0, (), known).places
        assert [place.graph for _, place in sorted(places.items())] == ran


def test_what_a_hook_does_is_its_own_on_both_sides() -> None:
    """FSDP2 gathers the next block's weights where autograd comes to this one, as the hook of any node."""

    def backward(node: str) -> Profile:
        engine = "autograd::engine::evaluate_function: "
        host = (
            _operator("aten::relu", 0, sequence=1),
            HostEvent("operator", engine + node, 2, 10, 50, sequence=1, forward_thread=1),
            HostEvent("annotation", "FSDP::pre_backward (blocks.1)", 2, 11, 40, parent=1),
            HostEvent("annotation", "FSDP::all_gather (blocks.0)", 2, 12, 30, parent=2),
            HostEvent("operator", "c10d::_allgather_base_", 2, 13, 20, parent=3),
        )
        return Profile("", host, ())

    eager = backward("ReluBackward0")
    work = work_of(eager)[0]
    at = next(number for number, piece in enumerate(work) if piece.name == "c10d::_allgather_base_")
    placed = place_eager(eager, [_program("relu")])
    place = places_of(eager, work, placed)[at]
    assert (place.graph, place.name, place.phase) == (None, "FSDP::all_gather", "backward")
    compiled = backward("CompiledFunctionBackward")
    other = place_compiled(compiled, work_of(compiled)[0], {}).places[at]
    assert (other.graph, other.name, other.phase) == (None, "FSDP::all_gather", "backward")


def test_calls_of_a_program_are_those_that_run_an_operator() -> None:
    """Names of sub-graphs and modes are none, and one of the user's has its own name."""
    text = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4]"):
        l_x_ = L_x_
        score_mod_0 = self.score_mod_0
        _set_grad_enabled = torch._C._set_grad_enabled(False);  _set_grad_enabled = None
        y = torch.ops.higher_order.flex_attention(l_x_, score_mod_0);  l_x_ = score_mod_0 = None
        z: "f32[4]" = torch.ops.mine.shrink.default(y);  y = None
        return (z,)
"""
    calls = program_graph("0/0", parse_fx_graph(text, "g")).calls
    assert [call.operator for call in calls] == ["flex_attention", "shrink"]
    profile = Profile("", (_operator("FlexAttentionAutogradOp", 0), _operator("mine::shrink", 10)), ())
    assert _parts(profile, ProgramGraph("0/0", calls)) == {
        "FlexAttentionAutogradOp": (0,), "mine::shrink": (1,),
    }  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
def test_launches_that_lead_to_no_call_are_together_what_eager_does(known: bool) -> None:
    """In the backward of torch's own modules no node has a line."""
    names = ("linear", "gelu")
    programs = {"0/0": ProgramGraph("0/0", tuple(ProgramCall(name, name, None) for name in names))}
    nodes = {0: CallNodes((0,) if known else (), True), 1: CallNodes((), True)}
    graphs = [GraphOfBlocks("g", "0/0", "backward", nodes)]

    def side(graph: str) -> Attributed:
        work, _ = work_of(
            Profile("", tuple(_operator(f"aten::{name}", 20 * at) for at, name in enumerate(names)), ())
        )
        places = [Place(graph, (part,), "backward", name) for part, name in enumerate(names)]
        return Attributed(work, tuple(replace(place, compile_id="0/0") for place in places), 1)

    blocks = join(side("0/0"), side("g"), programs, graphs)
    sides = sorted(
        (block.operators, bool(block.eager_ms), bool(block.compiled_ms), block.sure) for block in blocks
    )
    alone = [((), False, True, True), (("gelu",), True, False, True), (("linear",), True, True, True)]
    assert sides == (alone if known else [(names, True, True, False)])
    # Eager's gelu may be what the launch does of which nothing is known.
    told = {change(block) for block in blocks}
    assert told == ({"found only in eager", "found only compiled", SAME_KERNEL} if known else {SAME_KERNEL})


@pytest.mark.parametrize("trains", [False, True])
def test_a_gradient_inside_of_a_frame_is_what_eager_does_in_a_backward_pass(trains: bool) -> None:
    """As of ``torch.func.grad``; where the frame has a backward graph, too, nothing tells which is whose."""
    names = ("linear", "_autograd_grad")
    programs = {"0/0": ProgramGraph("0/0", tuple(ProgramCall(name, name, None) for name in names))}
    nodes = {0: CallNodes((0,), True), 1: CallNodes((1,), True)}
    graphs = [GraphOfBlocks("g", "0/0", "forward", nodes)]
    graphs += [GraphOfBlocks("b", "0/0", "backward", {})] if trains else []

    def side(graph: str, phase: Phase) -> Attributed:
        work, _ = work_of(Profile("", (_operator("aten::linear", 0), _operator("aten::mm", 20)), ()))
        parts = [Place(graph, (0,), "forward", "linear"), Place(graph, (int(graph == "g"),), phase, "mm")]
        return Attributed(work, tuple(replace(place, compile_id="0/0") for place in parts), 1)

    blocks = join(side("0/0", "backward"), side("g", "forward"), programs, graphs)
    both = [(bool(block.eager_ms), bool(block.compiled_ms), block.sure) for block in blocks]
    assert sorted(both) == [(True, True, False), (True, True, True)]


def test_a_backward_of_a_backward_is_in_the_gradient_that_the_frame_takes() -> None:
    """Autograd's nodes outside of all graphs that the compiled side has none of."""
    program = ProgramGraph("0/0", (ProgramCall("_autograd_grad", "_autograd_grad", None),))
    graphs = [GraphOfBlocks("g", "0/0", "forward", {0: CallNodes((0,), True)})]
    work, _ = work_of(Profile("", (_operator("aten::mm", 0), _operator("aten::mul", 20)), ()))
    nodes = [Place(None, (), "backward", name) for name in ("TanhBackwardBackward0", "MulBackward0")]
    own = [Place("g", (0,), "forward", "mm", compile_id="0/0"), nodes[1]]
    blocks = join(
        Attributed(work, tuple(nodes), 1), Attributed(work, tuple(own), 1), {"0/0": program}, graphs
    )
    told = sorted((block.operators, bool(block.eager_ms), bool(block.compiled_ms)) for block in blocks)
    assert told == [(("MulBackward0",), True, True), (("_autograd_grad",), True, True)]


def test_the_programs_thread_is_the_one_with_its_calls() -> None:
    """DDP's hooks in autograd's thread copy more often than the forward pass calls anything."""
    copies = tuple(HostEvent("operator", "aten::copy_", 2, 10.0 * i, 5.0) for i in range(9))
    profile = Profile("", (_operator("aten::linear", 0), _operator("aten::gelu", 10), *copies), ())
    assert _parts(profile, _program("linear", "gelu")) == {"aten::linear": (0,), "aten::gelu": (1,)}


def test_a_frame_that_several_graphs_share_is_split_in_its_order() -> None:
    calls = ("norm", "linear", "gelu", "linear_1", "add")
    program = ProgramGraph("0/0", tuple(ProgramCall(name, name, None) for name in calls))
    # Names count from the beginning in each graph; of the last there are no files.
    assert split_program(program, [("gelu", "linear", "norm"), ()]) == [range(3), range(3, 5)]
    assert split_program(program, [("norm",), ("gelu", "linear"), ("add", "linear")]) == [
        range(1), range(1, 3), range(3, 5),
    ]  # fmt: skip
    assert [call.name for call in part_of_program(program, range(1, 5)).calls] == [
        "linear", "gelu", "linear_1", "add",
    ]  # fmt: skip
    assert part_of_program(program, range(3, 5)).calls[0].name == "linear"
    assert split_program(program, [("linear", "linear_1", "linear_2"), ("add",)]) is None
    assert split_program(program, [(), ("add",)]) is None


def test_after_the_recompile_limit_a_call_runs_no_region() -> None:
    """Its operators are then outside of all graphs, on both sides; older torch marks no region at all."""
    graph = CompiledGraphCalls("g", "0/0", "forward", (call(0, "extern_kernels.mm", "extern"),), {})
    profile = Profile("", (_operator("aten::mm", 0),), ())
    placed = place_compiled(profile, work_of(profile)[0], {"key": graph}, {"0/0"})
    assert placed.regions == () and placed.places[0].graph is None
    assert placed.notes == ("no compiled graph ran in the profiled calls",)
    run = HostEvent("annotation", "## Call CompiledFxGraph key ##", 1, 0, 80)
    profile = Profile("", (run, HostEvent("operator", "aten::mm", 1, 1, 10, parent=0)), ())
    placed = place_compiled(profile, work_of(profile)[0], {"key": graph}, {"0/0"})
    assert placed.regions is None and placed.places[0].graph == "g"


def test_a_profiled_host_that_took_longer_is_one_sum_and_leaves_its_gaps_unexplained() -> None:
    host = ((OPERATORS, 5.0), (GAPS, 1.0))
    side = SideTotals(1, True, 9.0, 3.0, 3.0, transfers_ms=3.0, host=host)
    ledger = two_sided_ledger(Joined((), side, side), 6.0, 20.0)
    assert ledger is not None
    parts = {part.part: (part.eager_ms, part.compiled_ms) for part in ledger.differences}
    # 3 ms are beside the work of one side, and 17 of the other: of these 5 have a name.
    assert parts[HOST] == (2.0, 5.0)
    assert (ledger.unexplained_eager_ms, ledger.unexplained_compiled_ms) == (1.0, 12.0)


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize(
    ("section", "named"),
    [
        ("Torch-Compiled Region: 0/0", None),
        ("autograd::engine::evaluate_function: MmBackward0", None),
        # A look-up of guards and a graph's wrapper hold nothing of the program's.
        ("TorchDynamo Cache Lookup", GUARDS),
        ("## Call CompiledFxGraph key ##", WRAPPER),
    ],
)
def test_a_sleep_inside_one_of_torchs_sections_is_unexplained(
    section: str, named: str | None, device: bool
) -> None:
    """A hook sleeps 3 ms between two operators of a section, which are 0.1 ms apart from its ends."""
    host = (
        HostEvent("annotation", "inspector: call", 1, 0, 4000),
        HostEvent("operator", section, 1, 0, 4000, parent=0),
        HostEvent("operator", "aten::mm", 1, 100, 400, parent=1),
        HostEvent("annotation", "the user's", 1, 500, 3000, parent=1),
        HostEvent("operator", "aten::mm", 1, 3500, 400, parent=1),
    )
    kernels = tuple(DeviceEvent("kernel", "mm", 0, 7, at, 400.0) for at in (100.0, 3500.0))
    profile = Profile("", host, kernels if device else ())
    work, _ = work_of(profile)
    places = [Place(None, (), "forward", piece.name) for piece in work]
    parts = dict(totals(profile, work, places, 1, [], device, ()).host)
    assert sum(parts.values()) == pytest.approx(3.2)
    assert parts.get(GAPS, 0.0) == (0.0 if named else 3.0)
    if named:
        assert parts == {named: pytest.approx(3.2)}


def test_what_the_host_does_outside_of_compiled_code_is_told_apart() -> None:
    """0.3 ms in an operator of a region's, 0.25 in the engine's, 0.45 waiting, 0.4 in one of the program's
    and 0.1 of Python before it."""
    host = (
        HostEvent("annotation", "inspector: call", 1, 0, 1500),
        HostEvent("operator", "Torch-Compiled Region: 0/0", 1, 0, 300, parent=0),
        HostEvent("operator", "aten::mm", 1, 0, 300, parent=1),
        HostEvent("operator", "autograd::engine::evaluate_function: MmBackward0", 1, 300, 250, parent=0),
        HostEvent("runtime", "cudaDeviceSynchronize", 1, 550, 450, parent=0),
        HostEvent("operator", "aten::add", 1, 1100, 400, parent=0),
    )
    profile = Profile("", host, (DeviceEvent("kernel", "mm", 0, 7, 2000.0, 1.0),))
    work, _ = work_of(profile)
    side = totals(profile, work, [Place("g", (0,), "forward", "mm")], 1, [], True, ())
    assert side.outside_ms == pytest.approx(0.75)


def test_a_runtime_call_in_a_section_is_no_gap() -> None:
    """The host waits 3 ms for a place in the device's queue, in a region."""
    host = (
        HostEvent("operator", "Torch-Compiled Region: 0/0", 1, 0, 4000),
        HostEvent("runtime", "cudaMalloc", 1, 200, 3600, parent=0),
    )
    profile = Profile("", host, (DeviceEvent("kernel", "mm", 0, 7, 3900.0, 100.0),))
    work, _ = work_of(profile)
    side = totals(profile, work, [Place("g", (0,), "forward", "mm")], 1, [], True, ())
    assert dict(side.host) == {DISPATCH: pytest.approx(3.9)}


def test_an_operator_has_the_hosts_time_in_itself_while_the_device_idles() -> None:
    """5 ms, of which 0.5 are in an operator inside, 1 waiting for the device and 1 beside a kernel."""
    host = (
        HostEvent("operator", "aten::_cudnn_attention_forward", 1, 0, 5000),
        HostEvent("operator", "aten::empty", 1, 100, 500, parent=0),
        HostEvent("runtime", "cudaStreamSynchronize", 1, 1000, 1000, parent=0),
    )
    profile = Profile("", host, (DeviceEvent("kernel", "sdpa", 0, 7, 4000.0, 1000.0),))
    work, _ = work_of(profile)
    side = totals(profile, work, [Place("g", (0,), "forward", "sdpa")], 1, [], True, ())
    assert [(item.name, item.calls) for item in side.operators] == [
        ("aten::_cudnn_attention_forward", 1.0),
        ("aten::empty", 1.0),
    ]
    assert [item.ms for item in side.operators] == pytest.approx([2.5, 0.5])
    assert totals(profile, work, [Place("g", (0,), "forward", "sdpa")], 1, [], False, ()).operators == ()


def test_what_runs_at_once_shares_the_time_and_copies_get_what_is_left() -> None:
    intervals = [(0.0, 100.0), (50.0, 100.0), (80.0, 140.0), (200.0, 210.0)]
    taken = shared_ms(intervals, [False, False, True, False])
    assert taken == pytest.approx([0.075, 0.025, 0.040, 0.010])
    assert sum(taken) == pytest.approx(length_ms(intervals))
    assert shared_ms(intervals[:2], [False, False]) == pytest.approx([0.075, 0.025])


def test_values_taken_out_of_a_tuple_are_no_calls() -> None:
    program = program_graph("0/0", parse_fx_graph(ATTENTION, "dynamo"))
    assert [(call.operator, call.unpacked) for call in program.calls] == [
        ("multi_head_attention_forward", ("x_1",)),
        ("getitem", ()),
    ]
    names = ["aten::linear", "aten::select", "aten::scaled_dot_product_attention", "aten::select"]
    profile = Profile("", tuple(_operator(name, 10.0 * i) for i, name in enumerate(names)), ())
    placed = place_eager(profile, [program]).places
    assert placed[len(names) - 1].parts == (1,)


@pytest.mark.parametrize("place", ["in a graph", "outside"])
def test_operators_that_wait_in_a_graph_are_named(place: str) -> None:
    """MAGMA waits without a call that the profile has, other libraries with one."""
    graph = "## Call CompiledFxGraph abc ##" if place == "in a graph" else "aten::outer"
    host = (
        HostEvent("operator", graph, 1, 0, 100),
        HostEvent("operator", "aten::cholesky_solve", 1, 10, 20, parent=0),
        HostEvent("operator", "aten::_helper", 1, 12, 10, parent=1),
        HostEvent("runtime", "cudaLaunchKernel", 1, 15, 1, parent=2),
        HostEvent("operator", "aten::_linalg_eigh", 1, 50, 20, parent=0),
        HostEvent("runtime", "cudaStreamSynchronize", 1, 55, 1, parent=4),
        HostEvent("operator", "aten::mm", 1, 80, 20, parent=0),
        HostEvent("runtime", "cudaLaunchKernel", 1, 85, 1, parent=6),
    )
    device = tuple(
        DeviceEvent("kernel", name, 0, 7, 0, 1, launch=launch)
        for name, launch in (("trsm_batched(magma_diag_t)", 3), ("gemm", 7))
    )
    waiting = ("_linalg_eigh", "cholesky_solve") if place == "in a graph" else ()
    assert waiting_operators(Profile("", host, device)) == waiting


RESIDUAL = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 8]", L_w_: "f32[8, 8]"):
        l_x_ = L_x_
        l_w_ = L_w_

        # File: model.py:7 in forward, code: x = x + F.linear(x, w)
        linear: "f32[4, 8]" = torch._C._nn.linear(l_x_, l_w_);  l_w_ = None
        x: "f32[4, 8]" = l_x_ + linear;  l_x_ = linear = None

        # File: model.py:8 in forward, code: return x.relu()
        relu: "f32[4, 8]" = x.relu();  x = None
        return (relu,)
"""


def test_a_product_in_its_sum_belongs_to_the_one_call_of_both() -> None:
    """torch names the sum alone for the ``addmm`` that it makes of both."""
    program = program_graph("0/0", program_of(RESIDUAL, "g"))
    assert [item.operator for item in program.calls] == ["linear", "add", "relu"]
    launches = (call(0, "extern_kernels.addmm", "extern"), call(1, "cpp_fused_relu_0", "cpp"))
    product = fx_node("addmm_default", "torch.ops.aten.addmm.default")
    made = artifacts(output=code(*launches), fx=fx_graph(product))
    links = [CallLink(0, (), (), ("addmm_default",), ()), CallLink(1, (), (), ("relu",), ())]
    linked = Linkage(tuple(links), (("addmm_default", ("x",)), ("relu", ("relu",))))
    nodes = nodes_of_calls(made, linked, program)
    assert nodes == {0: CallNodes((0, 1), True), 1: CallNodes((2,), False)}
    # A part of a frame has names that count from its own beginning, of inputs too.
    first, second, last = program.calls
    frame = (replace(first, name="linear_3"), replace(second, inputs=("l_x_", "linear_3")), last)
    assert nodes_of_calls(made, linked, part_of_program(ProgramGraph("0/0", frame), range(3))) == nodes
    # A product that a launch of its own does is that launch's.
    alone = (call(0, "extern_kernels.mm", "extern"), call(1, "extern_kernels.addmm", "extern"))
    products = fx_graph(fx_node("mm", "torch.ops.aten.mm.default"), product)
    links = [CallLink(0, (), (), ("mm",), ()), CallLink(1, (), (), ("addmm_default",), ())]
    linked = Linkage(tuple(links), (("mm", ("linear",)), ("addmm_default", ("x",))))
    owning = nodes_of_calls(artifacts(output=code(*alone), fx=products), linked, program)
    assert owning == {0: CallNodes((0,), True), 1: CallNodes((1,), True)}


IN_PIECES = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_q_: "f32[4, 8, 8]", L_mask_: "f32[8, 8]"):
        l_q_ = L_q_
        l_mask_ = L_mask_

        # File: model.py:6 in forward, code: mask = mask * 2
        mask: "f32[8, 8]" = l_mask_ * 2;  l_mask_ = None

        # File: model.py:7 in forward, code: return F.scaled_dot_product_attention(q, q, q, mask)
        out: "f32[4, 8, 8]" = torch._C._nn.scaled_dot_product_attention(l_q_, l_q_, l_q_, attn_mask = mask)
        return (out,)
"""


@pytest.mark.parametrize(
    ("kernel", "together"),
    [("extern_kernels.bmm", True), ("aten._scaled_dot_product_flash_attention", False)],
)
def test_the_softmax_of_an_attention_in_pieces_is_as_much_of_it_as_its_products(
    kernel: str, together: bool
) -> None:
    program = program_graph("0/0", program_of(IN_PIECES, "g"))
    launches = (call(0, kernel, "extern"), call(1, "cpp_fused__softmax_mul_0", "cpp"))
    nodes = fx_graph(fx_node("product", f"torch.ops.{kernel}.default"), fx_node("softmax", "aten._softmax"))
    links = [CallLink(0, (), (), ("product",), ()), CallLink(1, (), (), ("softmax", "mul"), ())]
    linked = Linkage(tuple(links), (("product", ("out",)), ("softmax", ("out",)), ("mul", ("mask",))))
    found = nodes_of_calls(artifacts(output=code(*launches), fx=nodes), linked, program)
    assert found[0] == CallNodes((1,), True)
    assert found[1] == CallNodes((0, 1) if together else (0,), False)


ANGLE = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "c64[4, 8]"):
        l_x_ = L_x_

        # File: model.py:7 in forward, code: phase = x.angle()
        phase: "f32[4, 8]" = l_x_.angle();  l_x_ = None
        return (phase,)
"""


def test_a_view_that_runs_as_in_eager_does_no_work_of_a_calls() -> None:
    """Of complex numbers' angle the views are operators of ATen's, and the arithmetic is generated."""
    program = program_graph("0/0", program_of(ANGLE, "g"))
    launches = (call(0, "torch.ops.aten.view_as_real.default", "fallback"), call(1, "cpp_fused_0", "cpp"))
    view = fx_node("view_as_real", "torch.ops.aten.view_as_real.default")
    nodes = fx_graph(view, fx_node("atan2", "torch.ops.aten.atan2.default"))
    links = [CallLink(0, (), (), ("view_as_real",), ()), CallLink(1, (), (), ("atan2",), ())]
    linked = Linkage(tuple(links), (("view_as_real", ("phase",)), ("atan2", ("phase",))))
    both = nodes_of_calls(artifacts(output=code(*launches), fx=nodes), linked, program)
    assert both == {0: CallNodes((0,), False), 1: CallNodes((0,), False)}


def test_seeds_are_no_calls_of_the_programs_and_the_numbers_are_the_kernels() -> None:
    """Inductor draws the seeds of all random numbers of a graph at once, at the first of their lines."""
    program = program_graph("0/0", program_of(ANGLE.replace("l_x_.angle()", "torch.rand_like(l_x_)"), "g"))
    launches = (call(0, "aten.randint.low_out", "fallback"), call(1, "cpp_fused_rand_0", "cpp"))
    seeds = fx_node("seeds", "torch.ops.prims.inductor_seeds.default")
    nodes = fx_graph(seeds, fx_node("random", "torch.ops.prims.inductor_random.default"))
    links = [CallLink(0, (), (), ("seeds",), ()), CallLink(1, (), (), ("random",), ())]
    linked = Linkage(tuple(links), (("seeds", ("phase",)), ("random", ("phase",))))
    both = nodes_of_calls(artifacts(output=code(*launches), fx=nodes), linked, program)
    assert both == {0: CallNodes((), False), 1: CallNodes((0,), False)}


@pytest.mark.parametrize(("view_ms", "said"), [(0.1, "2 -> 3 kernels"), (6.0, SAME_KERNEL)])
def test_a_view_of_both_sides_is_not_what_a_block_does(view_ms: float, said: str) -> None:
    view = KernelTime("view_as_real", 1.0, view_ms)
    eager = (view, KernelTime("angle", 1.0, 2.0))
    compiled = (view, KernelTime("cpp_fused_0", 2.0, 5.0, generated=True))
    block = Block((), (), ("angle",), "forward", "g", 2.0 + view_ms, 5.0 + view_ms, eager, compiled)
    assert change(block) == said


def test_what_an_optimizers_step_does_is_one_thing_on_both_sides() -> None:
    """But for operators of a step that is compiled, which have places of their own."""
    host = (
        _operator("aten::relu", 0, sequence=1),
        HostEvent("annotation", "Optimizer.step#AdamW.step", 1, 100, 50),
        HostEvent("operator", "aten::mul_", 1, 110, 5, parent=1),
        HostEvent("operator", "aten::addcdiv_", 1, 120, 5, parent=1),
    )
    profile = Profile("", host, ())
    work = work_of(profile)[0]
    eager = places_of(profile, work, place_eager(profile, [_program("relu")]))
    compiled = place_compiled(profile, work, {}).places
    for places in (eager, compiled):
        assert [(place.graph, place.name) for place in places][-2:] == [(None, "AdamW.step")] * 2
    step = places_of(profile, work, place_eager(profile, [_program("relu", "mul_", "addcdiv_")]))
    assert [place.parts for place in step] == [(0,), (1,), (2,)]


def test_a_block_that_eager_seldom_calls_has_no_time_of_eagers() -> None:
    """An evaluation that calls the model itself is a call of what is compiled in eager alone: four of five
    profiled ones had no backward pass, and the layer norm's took "a fifth" of compiled code's."""
    backward = (KernelTime("aten::layer_norm_backward", 0.2, 0.67), KernelTime("aten::empty", 1.2, 0.01))
    fused = (KernelTime("cpp_fused_native_layer_norm_backward_0", 1.0, 5.3),)
    assert not _as_often(backward, fused)
    assert _as_often(tuple(replace(kernel, calls=5 * kernel.calls) for kernel in backward), fused)
    # What compiled code seldom calls as well is the same, and what one of the two has not is not rare.
    assert _as_often(backward, (replace(fused[0], calls=0.2),))
    assert _as_often((), fused) and _as_often(backward, ())
