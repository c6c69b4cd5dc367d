"""Wrappers in C++: a capture under TORCHINDUCTOR_CPP_WRAPPER=1 with a custom operator, torch.cond, symbolic
sizes, a mutation and a backward (torch 2.13, CPU), kept as it was but for its paths."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from damage import damaged
from sharing import unpacked

from inspector.analysis.linkage import link_graph
from inspector.analysis.summary import summarise_graph
from inspector.model.code import Alias, Allocation, OutputCode
from inspector.readers.graph import CompiledGraph
from inspector.readers.output_code import parse_output_code
from inspector.readers.run import Run

ARCHIVE = Path(__file__).parent / "data" / "extra" / "doors-torch2.13.tar.xz"


NUMBERED = {"torch.ops.mylib.twice": "aoti_torch_cpu_twice"}
"""What the comment calls otherwise: an operator that C++ has no function for goes through the dispatcher."""


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(ARCHIVE, tmp_path_factory.mktemp("doors"))


@pytest.fixture(scope="module")
def graphs(doors: Path) -> dict[str, CompiledGraph]:
    run = Run.open(doors / "cpp_wrapper")
    return {graph.name: graph for graph in run.graphs}


def code(graph: CompiledGraph) -> OutputCode:
    read = graph.code()
    assert read is not None
    return read


def test_launches_are_those_that_the_text_numbers(graphs: dict[str, CompiledGraph]) -> None:
    for graph in graphs.values():
        handles = re.findall(
            r"// \[Provenance debug handles\] (\S+):(\d+)", graph.text("output_code.py") or ""
        )
        assert handles
        assert [
            (NUMBERED.get(call.kernel, call.kernel), str(call.handle)) for call in code(graph).calls
        ] == handles


def test_every_launch_is_linked(graphs: dict[str, CompiledGraph]) -> None:
    linked = {name: link_graph(graph.artifacts()).calls for name, graph in graphs.items()}
    assert all(link.fx for name, links in linked.items() for link in links if "backward" not in name)
    # Without the provenance that torch left unwritten: the library's call, by its operator.
    assert linked["model__1_backward_4.2"][1].fx == ("mm",)


def test_counts(graphs: dict[str, CompiledGraph]) -> None:
    counted = summarise_graph(graphs["model__0_inference_0.0"].artifacts())
    assert counted.kernels is not None
    assert {kind: number for kind, number in counted.kernels.items() if number} == {
        "cpp": 7, "extern": 3, "fallback": 4,
    }  # fmt: skip
    assert counted.kernel_calls == 15


def test_no_problem(graphs: dict[str, CompiledGraph]) -> None:
    assert [problem for graph in graphs.values() for problem in code(graph).problems] == []


def test_what_a_launch_reads_and_writes(graphs: dict[str, CompiledGraph]) -> None:
    calls = {call.kernel: call for call in code(graphs["model__0_inference_0.0"]).calls}
    addmm, twice = calls["aoti_torch_cpu_addmm_out"], calls["torch.ops.mylib.twice"]
    assert (addmm.buffers, addmm.outputs) == (("buf5", "arg6_1", "buf4", "arg5_1"), ("buf5",))
    assert addmm.origin is not None and addmm.origin.operators[-1] == "aten.addmm"
    assert (twice.buffers, twice.outputs) == (("buf5", "buf7"), ("buf7",))
    assert calls["aoti_torch_cpu_sort_stable"].outputs == ("buf19", "buf20")
    assert calls["cpp_fused_mean_relu_1"].outputs == ("buf4",)


def test_sizes_views_inputs_and_outputs(graphs: dict[str, CompiledGraph]) -> None:
    read = code(graphs["model__0_inference_0.0"])
    sizes = {step.name: (step.size, step.dtype) for step in read.steps if isinstance(step, Allocation)}
    assert sizes["buf0"] == (("s77", 3, "s53", "s53"), "float32")
    assert sizes["buf12"] == ((), "bool")
    aliases = {step.name: (step.kind, step.source) for step in read.steps if isinstance(step, Alias)}
    assert aliases["buf4"] == ("reuse", "buf3")
    assert aliases["var_1"] == ("view", "buf13")
    assert aliases["s77"] == ("symbol", "arg2_1")
    assert read.inputs == tuple(f"arg{n}_1" for n in range(8))
    assert read.outputs == ("buf15", "buf19", "buf22", "buf16", "var_1")


def test_lines_are_those_of_the_file(graphs: dict[str, CompiledGraph]) -> None:
    read = code(graphs["model__1_forward_2.1"])
    lines = read.text.split("\n")
    for call in read.calls:
        assert lines[call.span.first - 1].strip() == call.text
    kernel = next(kernel for kernel in read.kernels if kernel.kind == "cpp")
    assert kernel.span is not None and kernel.name in lines[kernel.span.first - 1]
    assert lines[kernel.span.last - 1] == "}"


def test_a_capture_of_aotinductor(doors: Path) -> None:
    """torch.export and aoti_compile_and_package: a folder without an AOT id, and code in C++ alone."""
    (graph,) = Run.open(doors / "aoti").graphs
    assert (graph.name, graph.phase, graph.missing) == ("model___0.0", "inference", ())
    assert graph.label("output_code.py").endswith("output_code.cpp")
    artifacts = graph.artifacts()
    assert artifacts.problems == ()
    assert [call.kind for call in code(graph).calls] == ["extern", "cpp"]
    assert all(link.entries and link.fx for link in link_graph(artifacts).calls)


def test_on_a_gpu(doors: Path) -> None:
    """Of torch 2.11 on an H200: Triton's kernels are launched by functions of their own."""
    (graph,) = Run.open(doors / "h200" / "cpp_wrapper").graphs
    read = code(graph)
    assert [(call.kind, call.buffers, call.outputs) for call in read.calls] == [
        ("extern", ("buf0", "arg0_1", "arg1_1"), ("buf0",)),
        ("triton", ("buf3", "buf4"), ("buf3", "buf4")),
        ("triton", ("buf4", "buf6"), ("buf6",)),
    ]
    linked = link_graph(graph.artifacts()).calls
    assert [link.entries for link in linked] == [("op0",), ("op1_op2_op3_op4",), ("op6",)]
    kernel = next(kernel for kernel in read.kernels if kernel.name == "triton_per_fused_sum_1")
    assert kernel.heuristic == "persistent_reduction" and "@triton.jit" in kernel.source


def test_a_package_of_a_gpu(doors: Path) -> None:
    (graph,) = Run.open(doors / "h200" / "model.pt2").graphs
    mm, triton = code(graph).calls
    assert (mm.kernel, triton.outputs) == ("aoti_torch_cuda_mm_out", ("buf7",))
    assert triton.origin is not None and triton.origin.source_nodes[-1] == "softmax"
    kernel = next(kernel for kernel in code(graph).kernels if kernel.kind == "triton")
    assert "@triton.jit" in kernel.source and kernel.parameters[0].name == "in_out_ptr0"
    assert graph.run.devices == ("cuda",)


GPU = """void inductor_entry_impl(
    AtenTensorHandle* input_handles) {
    auto inputs = steal_from_raw_handles_to_raii_handles(input_handles, 1);
    auto arg0_1 = std::move(inputs[0]);
    AtenTensorHandle buf0_handle;
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, s, s, cached_torch_dtype_float32, cached_torch_device_type_cuda, 0, &buf0_handle));
    RAIIAtenTensorHandle buf0(buf0_handle);
    %s
} // inductor_entry_impl
"""  # noqa: E501


@pytest.mark.parametrize(
    "statement",
    [
        "call_triton_poi_fused_relu_0(arg0_1, buf0, 64L, stream, device_idx);",
        "launchKernel(kernels.triton_poi_fused_relu_0, 1, 1, 1, 4, 0, args, stream);",
    ],
)
def test_a_triton_launch(statement: str) -> None:
    (call,) = parse_output_code(GPU % statement, "x").calls
    assert (call.kernel, call.kind) == ("triton_poi_fused_relu_0", "triton")


def test_what_asks_or_prepares_is_no_launch() -> None:
    for statement in (
        "AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(arg0_1, &arg0_1_dtype));",
        "AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_assign_tensors_out(arg0_1, &x_handle));",
        "AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_item_bool(arg0_1, &scalar));",
    ):
        assert parse_output_code(GPU % statement, "x").calls == ()


def test_one_that_was_cut_off_gives_what_is_there(graphs: dict[str, CompiledGraph]) -> None:
    text = graphs["model__1_forward_2.1"].text("output_code.py") or ""
    whole = parse_output_code(text, "x")
    cut = parse_output_code(text[: text.index("cpp_fused_gelu_pow_sum_0((const")], "x")
    assert [call.kernel for call in cut.calls] == [call.kernel for call in whole.calls[:1]]
    assert [str(problem) for problem in cut.problems] == ["x:48: ends before `call` returns"]


@pytest.mark.parametrize("seed", range(10))
def test_damaged(graphs: dict[str, CompiledGraph], seed: int) -> None:
    texts = [(graph.text("output_code.py") or "").encode() for graph in graphs.values()]
    chance = random.Random(seed)
    for _ in range(5):
        broken = damaged(texts[0], chance, texts[1]).decode("utf-8", "replace")
        assert all(call.kernel for call in parse_output_code(broken, "x").calls)
