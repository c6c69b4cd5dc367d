# ruff: noqa: E501 (generated statements are quoted as they are)
"""output_code.py: real captures checked by independent counts, then statements that the captures lack."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sharing import unpacked

from inspector.explain.cpp_loops import loop_nests, starts_threads
from inspector.model.code import (
    Alias,
    Allocation,
    ExampleInput,
    Free,
    KernelCall,
    KernelParameter,
    OtherStep,
    OutputCode,
    SizeAssertion,
    Step,
)
from inspector.readers.kernels import written_parameters
from inspector.readers.output_code import parse_output_code
from inspector.readers.text import read_text

EXTRA = Path(__file__).parent / "data" / "extra" / "wrappers-torch2.13.tar.xz"


@pytest.fixture(scope="module")
def graphs(corpus_graphs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All captured graph folders: the corpus, and small wrappers with subgraphs, pools, constants and the like."""
    root = unpacked(EXTRA, tmp_path_factory.mktemp("wrappers"))
    return corpus_graphs + sorted(path.parent for path in root.rglob("output_code.py"))


@pytest.fixture(scope="module")
def parsed(graphs: list[Path]) -> dict[Path, OutputCode]:
    return {
        folder: parse_output_code(read_text(folder / "output_code.py")[0], str(folder)) for folder in graphs
    }


def find(parsed: dict[Path, OutputCode], *parts: str) -> OutputCode:
    """The one graph whose folder contains all of `parts`."""
    (found,) = [code for folder, code in parsed.items() if all(part in str(folder) for part in parts)]
    return found


def body_lines(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of the non-blank lines within `call`, partitions and subgraphs."""
    indent: int | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if (head := re.match(r"( *)def (\w+)\((?:self, )?args\):", line)) and (
            head[2] == "call" or not head[1]
        ):
            indent = len(head[1])
        elif indent is not None and line.strip():
            if len(line) - len(line.lstrip()) <= indent:
                indent = None
            else:
                yield number, line.strip()


def repeats_itself(text: str) -> bool:
    """Whether a subgraph is called from several places, so that its launches are counted more than once."""
    return "repeated_subgraph" in text or "while_loop_cond_graph" in text


LAUNCH = re.compile(
    r"(?:\w+ = )?(?:\w+\.run|cpp_fused\w*|extern_kernels\.\w+|(?:torch\.ops|aten|inductor_ops)\.[\w.]+)\("
)


def test_launches_are_counted_as_the_text_has_them(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        expected = [number for number, line in body_lines(code.text) if LAUNCH.match(line)]
        found = [call.span.first for call in code.calls]
        if repeats_itself(code.text):
            assert sorted(set(found)) == expected, folder
            assert len(found) > len(expected), folder
        else:
            assert sorted(found) == expected, folder
        assert [call.index for call in code.calls] == list(range(len(found))), folder


def test_every_line_of_the_wrapper_belongs_to_one_step(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        covered: dict[int, set[tuple[int, int]]] = {}
        for step in code.steps:
            for line in range(step.span.first, step.span.last + 1):
                covered.setdefault(line, set()).add((step.span.first, step.span.last))
        expected = [number for number, _ in body_lines(code.text)]
        assert sorted(covered) == expected, folder
        assert all(len(spans) == 1 for spans in covered.values()), folder


def test_steps_quote_their_lines(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        lines = code.text.split("\n")
        for step in code.steps:
            if isinstance(step, KernelCall | Alias | OtherStep):
                assert step.text == lines[step.span.first - 1].strip(), folder


def test_captures_have_no_problems(parsed: dict[Path, OutputCode]) -> None:
    assert {folder.name: code.problems for folder, code in parsed.items() if code.problems} == {}


def test_each_debug_handle_is_one_launch(parsed: dict[Path, OutputCode]) -> None:
    seen = 0
    for folder, code in parsed.items():
        written = re.findall(r"^ +# \[Provenance debug handles\] (\S+):(\d+)$", code.text, re.MULTILINE)
        calls = [(call.kernel, str(call.handle)) for call in code.calls if call.handle is not None]
        if repeats_itself(code.text):
            calls = list(dict.fromkeys(calls))
        assert sorted(calls) == sorted(written), folder
        seen += len(calls)
        file = folder / "inductor_provenance_tracking_node_mappings.json"
        if file.exists():
            known = json.loads(file.read_text())["cppCodeToPost"]
            assert {f"{kernel}:{handle}" for kernel, handle in calls} <= set(known), folder
    assert seen > 500


def test_origins_are_those_of_the_comment_above(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        lines = code.text.split("\n")
        comments = {number for number, line in body_lines(code.text) if "Source Nodes:" in line}
        origins = [call.origin for call in code.calls if call.origin is not None]
        assert {origin.line for origin in origins} == comments, folder
        for call in code.calls:
            if call.origin is not None:
                sources, _ = re.findall(r"\[(.*?)\]", lines[call.origin.line - 1])
                assert call.origin.source_nodes == tuple(re.findall(r"[^\s,]+", sources)), folder
                between = [line.strip() for line in lines[call.origin.line : call.span.first - 1]]
                assert all(line.startswith("#") or "stream" in line or "numel" in line for line in between), (
                    folder
                )


def test_extern_launches_follow_the_schedule(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        if repeats_itself(code.text) or "true_graph_0" in code.text:
            continue
        schedule = re.findall(
            r"^\w+\.node\.kernel = (\S+)$", (folder / "ir_post_fusion.txt").read_text(), re.MULTILINE
        )
        expected = [kernel for kernel in schedule if kernel not in ("None", "aten.copy_")]
        found = [call.kernel for call in code.calls if call.kind in ("extern", "fallback")]
        if "cpu-torch2.4" in str(folder):  # which prints no kernel for fallbacks
            found = [kernel for kernel in found if kernel.startswith("extern_kernels.")]
        assert found == expected, folder


def test_on_a_gpu_each_schedule_entry_is_one_launch(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        if "h200" in str(folder):
            entries = (folder / "ir_post_fusion.txt").read_text().split("\n\n\n")
            launched = [e for e in entries if re.match(r"\w+: (?!Nop)\w+\((?!MultiOutput\))", e.lstrip())]
            assert len(code.calls) == len(launched), folder


def test_every_allocated_buffer_is_written(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        source = {step.name: step.source for step in code.steps if isinstance(step, Alias)}

        def storage(name: str, source: dict[str, str] = source) -> str:
            while name in source:
                name = source[name]
            return name

        written = {storage(name) for call in code.calls for name in call.outputs}
        copied = set(re.findall(r"(\w+)\.copy_\(", code.text))
        made = {
            step.name for step in code.steps if isinstance(step, Allocation) and step.name.startswith("buf")
        }
        unused = {"buf0"} if "/tune/" in str(folder) else set()  # allocated, never passed to anything
        assert made - written - copied == unused, folder
        assert all(
            set(call.outputs) & set(call.buffers) or " = " in call.text for call in code.calls if call.outputs
        )


def test_definitions(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        defined = re.findall(r"^(\w+) = async_compile\.(\w+)\(", code.text, re.MULTILINE)
        kernels = [kernel for kernel in code.kernels if kernel.span is not None]
        assert [kernel.name for kernel in kernels] == [name for name, _ in defined], folder
        lines = code.text.split("\n")
        for kernel in kernels:
            assert kernel.span and kernel.source_span
            assert (
                "\n".join(lines[kernel.source_span.first - 1 : kernel.source_span.last]) + "\n"
                == kernel.source
            )
            assert lines[kernel.source_span.first - 2].startswith(f"{kernel.name} = async_compile."), folder
            assert (
                lines[kernel.span.last - 1].startswith("''')") or "device_str" in lines[kernel.span.last - 1]
            )
            assert kernel.parameters and kernel.function, (folder, kernel.name)
            if kernel.kind != "cpp":
                assert kernel.function == kernel.name
                assert lines[kernel.span.first - 1].startswith("# kernel path: ")
                assert kernel.origin is not None and kernel.origin.line == kernel.span.first + 1
                comment = lines[kernel.span.first - 1 : kernel.source_span.first - 2]
                details = [line for line in comment if line.startswith("#   ") and " => " not in line]
                found = kernel.fragment
                parts = (found.nodes, found.returns[:1]) if found is not None else ()
                assert len(details) == sum(map(len, parts)), (folder, kernel.name)
        called = dict.fromkeys(call.kernel for call in code.calls if call.kind in ("extern", "fallback"))
        assert [kernel.name for kernel in code.kernels if kernel.span is None] == list(called), folder


def test_kernel_kinds(parsed: dict[Path, OutputCode]) -> None:
    autotune = find(parsed, "h200", "autotune")
    assert [(kernel.kind, kernel.heuristic) for kernel in autotune.kernels] == [
        ("triton", "pointwise"),
        ("template", "template"),
        ("extern", None),
    ]
    assert {kernel.kind for kernel in find(parsed, "cpu-torch2.4.1", "mlp", "backward").kernels} == {
        "cpp",
        "extern",
        "fallback",
    }


def test_graph_fragment(parsed: dict[Path, OutputCode]) -> None:
    kernel = find(parsed, "cudagraphs").kernels[0]
    fragment = kernel.fragment
    assert fragment is not None and kernel.origin is not None
    assert kernel.origin.source_nodes == ("x", "mean", "x_1", "x_2")
    assert fragment.returns == ("buf1", "getitem_1", "buf3", "mul")
    kinds = [(node.name, node.kind, node.target) for node in fragment.nodes]
    assert kinds[:2] == [("mm", "placeholder", "mm"), ("buf1", "placeholder", "buf1")]
    assert ("var_mean", "call", "torch.ops.aten.var_mean.correction") in kinds
    lines = find(parsed, "cudagraphs").text.split("\n")
    assert all(lines[node.line - 1] == f"#   {node.text}" for node in fragment.nodes)
    assert len(fragment.nodes) == 12


def test_triton_parameters_and_metadata(parsed: dict[Path, OutputCode]) -> None:
    kernel = find(parsed, "cudagraphs").kernels[0]
    assert kernel.parameters == (
        KernelParameter("in_out_ptr0", "*fp32"),
        KernelParameter("xnumel", "i32"),
        KernelParameter("r0_numel", "i32"),
        KernelParameter("XBLOCK", "constexpr"),
    )
    metadata = dict(kernel.metadata)
    assert metadata["size_hints"] == "{'x': 32, 'r0_': 128}"
    assert metadata["device_str"] == "'cuda'"
    assert metadata["filename"] == "__file__"
    assert metadata["inductor_meta"].endswith("'tiling_scores': {'x': 0, 'r0_': 49152}}")
    assert kernel.heuristic == "persistent_reduction"


def test_cpp_parameters(parsed: dict[Path, OutputCode]) -> None:
    kernel = find(parsed, "cpu-torch2.4.1", "softmax").kernels[0]
    assert kernel.parameters[:2] == (
        KernelParameter("in_ptr0", "const float*"),
        KernelParameter("out_ptr0", "float*"),
    )
    assert written_parameters(kernel) == (1, 2, 3, 4)
    template = find(parsed, "wrappers", "/tune/").kernels[0]
    assert [parameter.name for parameter in template.parameters] == ["X", "W", "in_ptr2", "Y"]
    assert find(parsed, "wrappers", "/tune/").calls[0].outputs == ("buf1",)


def test_partition_is_in_place(parsed: dict[Path, OutputCode]) -> None:
    code = find(parsed, "cudagraphs")
    assert code.partitions == 1
    assert [call.partition for call in code.calls] == [0] * 12
    assert code.inputs == ("arg0_1", "arg1_1")
    assert code.outputs == ("buf35",)
    positions = [step.text for step in code.steps if isinstance(step, OtherStep)]
    assert positions.index("(buf35,) = self.partitions[0](partition0_args)") < positions.index(
        "args.clear()", 4
    )


def test_subgraphs_are_in_place(parsed: dict[Path, OutputCode]) -> None:
    cond = find(parsed, "wrappers", "cond")
    assert [call.kernel for call in cond.calls] == [
        "cpp_fused_sin_0",
        "extern_kernels.mm",
        "cpp_fused_add_cos_1",
    ]
    loop = find(parsed, "wrappers", "while")
    assert [call.kernel for call in loop.calls] == ["cpp_fused_lt_0", "cpp_fused_add_sin_1", "cpp_fused_lt_0"]
    repeated = find(parsed, "wrappers", "hop")
    assert [call.kernel for call in repeated.calls] == ["extern_kernels.mm", "cpp_fused__softmax_relu_0"] * 3


def test_example_inputs_are_the_arguments(parsed: dict[Path, OutputCode]) -> None:
    for folder, code in parsed.items():
        assert tuple(example.name for example in code.example_inputs) == code.inputs, folder
        lines = code.text.split("\n")
        assert all(f"    {e.name} = " in lines[e.line - 1] for e in code.example_inputs), folder
    backward = find(parsed, "cpu-torch2.13", "mlp", "backward")
    shared = [example for example in backward.example_inputs if example.storage is not None]
    assert len(shared) == len(re.findall(r"torch\.as_strided\(", backward.text)) > 0
    assert all(example.dtype == "float32" and example.device == "cpu" for example in shared)
    symbolic = [e for e in find(parsed, "h200", "llama", "inference_1.1").example_inputs if e.size is None]
    assert [(example.name, example.value) for example in symbolic] == [("arg0_1", 384)]
    constants = find(parsed, "wrappers", "/tune/")
    assert [example.name for example in constants.example_inputs] == ["arg2_1"]


def test_constants_are_buffers(parsed: dict[Path, OutputCode]) -> None:
    assert find(parsed, "wrappers", "/tune/").calls[0].buffers == (
        "arg2_1",
        "constant3",
        "_frozen_param1",
        "buf1",
    )


def test_pool(parsed: dict[Path, OutputCode]) -> None:
    code = find(parsed, "wrappers", "pool")
    made = {step.name: step for step in code.steps if isinstance(step, Allocation)}
    assert (made["buf1"].device, made["buf1"].size, made["buf1"].dtype) == ("cpu", (32, 1), "float32")
    reused = {step.name: step for step in code.steps if isinstance(step, Alias)}
    assert (reused["buf10"].kind, reused["buf10"].source) == ("reuse", "buf4")


# Statements that the captures lack, each as torch/_inductor/codegen writes it.

TRITON_2_4 = """
triton_poi_fused_add_0 = async_compile.triton('triton_', '''
import triton

@triton_heuristics.pointwise(
    size_hints=[128],
    filename=__file__,
    triton_meta={'signature': {0: '*fp32', 1: '*fp32', 2: 'i32'}, 'device': 0, 'constants': {}},
    inductor_meta={'autotune_hints': set(), 'mutated_arg_names': ['in_ptr0']},
    min_elem_per_thread=0
)
@triton.jit
def triton_(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
''', device_str='cuda')
"""

USER_KERNEL = """
# Original path: /home/user/train.py:12
scale_kernel_0 = async_compile.triton('scale_kernel', '''
@triton_heuristics.user_autotune(
    configs=[{'num_warps': 4}],
    inductor_meta={'grid_type': 'FixedGrid', 'kernel_name': 'scale_kernel_0'},
    triton_meta={'signature': {'x': '*fp32', 'y': '*fp32', 'n': 'constexpr', 'BLOCK': 'constexpr', 'z': '*fp32'}},
    filename=__file__,
    custom_kernel=True,
)
@triton.jit
def scale_kernel(
    x,  # the input (read)
    y, n,
    BLOCK: tl.constexpr,  # elements, a program
    z,
):
    tl.store(y + tl.arange(0, BLOCK), tl.load(x))
    tl.atomic_add(z, 1)

@triton.jit
def helper(out_ptr0):
    tl.store(out_ptr0, 1)
''', device_str='cuda')
"""

FOREACH = """
triton_for_fused_0 = async_compile.triton('triton_for_fused_0', '''
@triton_heuristics.foreach(
    num_warps=8,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'in_ptr1': '*fp32', 'out_ptr2': '*fp32', 'out_ptr3': '*fp32'}},
    inductor_meta={'grid_type': 'SequentialComboKernelGrid', 'mutated_arg_names': ['in_ptr0', 'out_ptr2']},
)
@triton.jit
def triton_for_fused_0(in_ptr0, in_ptr1, out_ptr2, out_ptr3):
    pass
''', device_str='cuda')
"""

MULTI_KERNEL = """
arg_index = {
    0: [slice(0, 2, None)],
}
multi_kernel_0 = async_compile.multi_kernel('multi_kernel_0', [
    triton_poi_fused_add_0,
    triton_for_fused_0,
], arg_index=arg_index)
"""

CUTLASS = """
cuda_fused_mm_0 = async_compile.cuda(r'''
#include <cutlass.h>
extern "C" {
PT_EXPORT int cuda_fused_mm_0(const half* X, const half* W, half* Y, size_t* workspace_size, cudaStream_t stream) {
  return 0;
}
}
''', 'so', aot_compile=False)
"""

METAL = """
mps_lib_0 = async_compile.metal('mps_lib_0', '''
kernel void mps_lib_0(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint xindex [[thread_position_in_grid]]
) {}
''', ['c10/metal/utils.h'])
"""

HALIDE = (
    "halide_kernel_0 = async_compile.halide(HalideMeta(argtypes=[HalideInputSpec(ctype='float*', name='in_ptr0', "
    "shape=['8'], alias_of=None), HalideInputSpec(ctype='float*', name='out_ptr0', shape=['8'], alias_of=None)], "
    "target='host'), '''\nimport halide\n''')\n"
)

DEFINITIONS = TRITON_2_4 + USER_KERNEL + FOREACH + MULTI_KERNEL + CUTLASS + METAL + HALIDE


def wrapper(*body: str, definitions: str = "", inputs: str = "arg0_1, arg1_1", before: str = "") -> str:
    """A file of torch 2.6's shape with `body` as the statements of `call`."""
    lines = "".join(f"    {line}\n" for line in (f"{inputs} = args", "args.clear()", *body))
    return (
        "# AOT ID: ['3_forward']\nimport torch\n\naten = torch.ops.aten\ninductor_ops = torch.ops.inductor\n"
        f"_quantized = torch.ops._quantized\nalloc_from_pool = torch.ops.inductor._alloc_from_pool\n{definitions}\n"
        f"{before}\nasync_compile.wait(globals())\ndel async_compile\n\ndef call(args):\n{lines}    return (buf0, )\n\n"
    )


def parse(*body: str, definitions: str = "") -> OutputCode:
    return parse_output_code(wrapper(*body, definitions=definitions), "output_code.py")


def only(step: str) -> Step:
    """The step of one statement, with the buffers buf0 to buf2 made before it."""
    code = parse(*(f"buf{n} = empty_strided_cuda((8, ), (1, ), torch.float32)" for n in range(3)), step)
    assert code.problems == ()
    return code.steps[-2]


@pytest.mark.parametrize(
    ("statement", "kernel", "kind", "buffers", "outputs"),
    [
        ("triton_poi_fused_add_0.run(arg0_1, buf1, 128, grid=grid(128), stream=stream0)", "", "triton", "arg0_1 buf1", "arg0_1 buf1"),
        ("scale_kernel_0.run(buf0, buf1, 1, buf2, 4, 1, 1, stream=stream0)", "", "user", "buf0 buf1 buf2", "buf1 buf2"),
        ("scale_kernel_0.run(reinterpret_tensor(buf0, (4, ), (1, ), 4), buf1, s0, buf2, grid=grid_wrapper_for_scale_kernel_0, stream=stream0)", "", "user", "buf0 buf1 buf2", "buf1 buf2"),
        ("triton_for_fused_0.run(arg0_1, arg1_1, arg0_1, buf1, stream=stream0)", "", "triton", "arg0_1 arg1_1 buf1", "arg0_1 buf1"),
        ("multi_kernel_0.run(arg0_1, buf1, 128, stream=stream0)", "", "triton", "arg0_1 buf1", "arg0_1 buf1"),
        ("cuda_fused_mm_0.cuda_fused_mm_0(arg0_1, arg1_1, buf0, None, c_void_p(stream0))", "", "template", "arg0_1 arg1_1 buf0", "buf0"),
        ("mps_lib_0.generated_kernel(buf0, arg0_1, threads=[128])", "", "cpp", "buf0 arg0_1", "buf0"),
        ("halide_kernel_0(arg0_1, buf0)", "", "cpp", "arg0_1 buf0", "buf0"),
        ("buf5 = extern_kernels.convolution(arg0_1, buf0, stride=(1, 1), bias=None)", "extern_kernels.convolution", "extern", "arg0_1 buf0", "buf5"),
        ("extern_kernels.mm(arg0_1, reinterpret_tensor(arg1_1, (4, 2), (1, 4), 0), out=reinterpret_tensor(buf0, (4, 2), (2, 1), 0))", "extern_kernels.mm", "extern", "arg0_1 arg1_1 buf0", "buf0"),
        ("buf6 = torch.ops.mylib.pair.out(arg0_1, out0=buf1, out1=buf2)", "torch.ops.mylib.pair.out", "fallback", "arg0_1 buf1 buf2", "buf6 buf1 buf2"),
        ("aten.index_put_(buf0, [arg0_1], buf1, True)", "aten.index_put_", "fallback", "buf0 arg0_1 buf1", "buf0"),
        ("torch.ops.aten.bernoulli_.float(buf1, 0.5)", "torch.ops.aten.bernoulli_.float", "fallback", "buf1", "buf1"),
        ("aten.scatter_reduce_.two(buf2,0,buf0,buf1, reduce='prod', include_self=True)", "aten.scatter_reduce_.two", "fallback", "buf2 buf0 buf1", "buf2"),
        ("inductor_ops.seeds(4, device('cuda:0'), out=buf0)", "inductor_ops.seeds", "fallback", "buf0", "buf0"),
        ("buf7 = torch.ops.higher_order.with_effects(None, buf0)", "torch.ops.higher_order.with_effects", "fallback", "buf0", "buf7"),
        ("buf7 = torch.ops.mkldnn._convolution_pointwise.default(buf0, arg1_1, 'relu', [None], 'buf1')", "torch.ops.mkldnn._convolution_pointwise.default", "fallback", "buf0 arg1_1", "buf7"),
        ("torch.ops.mylib.mutate.default(buf2, [1, 2])", "torch.ops.mylib.mutate.default", "fallback", "buf2", ""),
    ],
)  # fmt: skip
def test_launch(statement: str, kernel: str, kind: str, buffers: str, outputs: str) -> None:
    made = (f"buf{n} = empty_strided_cuda((8, ), (1, ), torch.float32)" for n in range(3))
    code = parse(*made, statement, definitions=DEFINITIONS)
    assert code.problems == ()
    (call,) = code.calls
    assert call.kernel == (kernel or re.split(r"[.(]", statement)[0])
    assert (call.kind, " ".join(call.buffers), " ".join(call.outputs)) == (kind, buffers, outputs)
    assert code.kernel(call.kernel) is not None
    assert call.text == statement


def test_triton_of_2_4() -> None:
    kernel = parse(definitions=DEFINITIONS).kernels[0]
    assert (kernel.name, kernel.function, kernel.kind) == ("triton_poi_fused_add_0", "triton_", "triton")
    assert kernel.parameters == (
        KernelParameter("in_ptr0", "*fp32"),
        KernelParameter("out_ptr0", "*fp32"),
        KernelParameter("xnumel", "i32"),
        KernelParameter("XBLOCK", "constexpr"),
    )
    assert dict(kernel.metadata)["min_elem_per_thread"] == "0"


def test_kinds_of_definitions() -> None:
    kinds = {
        kernel.name: (kernel.kind, kernel.heuristic) for kernel in parse(definitions=DEFINITIONS).kernels
    }
    assert kinds == {
        "triton_poi_fused_add_0": ("triton", "pointwise"),
        "scale_kernel_0": ("user", "user_autotune"),
        "triton_for_fused_0": ("triton", "foreach"),
        "multi_kernel_0": ("triton", "multi_kernel"),
        "cuda_fused_mm_0": ("template", None),
        "mps_lib_0": ("cpp", None),
        "halide_kernel_0": ("cpp", None),
    }


def test_user_kernel_definition() -> None:
    kernel = parse(definitions=DEFINITIONS).kernel("scale_kernel_0")
    assert kernel is not None
    assert kernel.function == "scale_kernel"
    assert [parameter.name for parameter in kernel.parameters] == ["x", "y", "n", "BLOCK", "z"]
    assert dict(kernel.metadata)["Original path"] == "/home/user/train.py:12"


@pytest.mark.parametrize(
    ("statement", "allocation"),
    [
        (
            "buf3 = empty_strided_cuda((4, s50), (s50, 1), torch.bfloat16)",
            ((4, "s50"), ("s50", 1), "bfloat16", "cuda"),
        ),
        ("buf3 = empty_strided_cpu_pinned((), (), torch.bool)", ((), (), "bool", "cpu")),
        (
            "buf3 = empty_strided_cpu((max(1, s0), 4), (4, 1), torch.int64)",
            (("max(1, s0)", 4), (4, 1), "int64", "cpu"),
        ),
        (
            "buf3 = empty_strided((4, ), (1, ), device='mps', dtype=torch.float16)",
            ((4,), (1,), "float16", "mps"),
        ),
        (
            "buf3 = empty_strided_cuda((8, 12), (12, 1), torch.float32).as_strided((8, 10), (12, 1))",
            ((8, 10), (12, 1), "float32", "cuda"),
        ),
        (
            "buf3 = empty_strided_p2p((4, ), (1, ), torch.float16, torch.device(\"cuda:0\"), group_name='0', alloc_id=7)",
            ((4,), (1,), "float16", "cuda"),
        ),
        (
            "buf3 = alloc_from_pool(buf0, 128, torch.float32, (32, 1), (1, 32))",
            ((32, 1), (1, 32), "float32", "cuda"),
        ),
    ],
)
def test_allocation(statement: str, allocation: tuple[object, ...]) -> None:
    step = only(statement)
    assert isinstance(step, Allocation)
    assert step.name == "buf3"
    assert (step.size, step.stride, step.dtype, step.device) == allocation


@pytest.mark.parametrize(
    ("statement", "kind", "source"),
    [
        ("buf3 = buf0; del buf0  # reuse", "reuse", "buf0"),
        ("buf3 = buf0;  # reuse", "reuse", "buf0"),
        ("buf3 = buf0  # alloc", "reuse", "buf0"),
        ("buf3 = reinterpret_tensor(buf1, (2, 4), (4, 1), 0); del buf1  # reuse", "reuse", "buf1"),
        (
            "buf3 = aten.view.dtype(reinterpret_tensor(buf1, (4, ), (1, ), 0), torch.int32);  # reuse",
            "reuse",
            "buf1",
        ),
        ("buf3 = reinterpret_tensor(buf1, (2, 4), (4, 1), 0)  # alias", "view", "buf1"),
        ("buf3 = reinterpret_tensor(buf1, (2, 4), (4, 1), 0)", "view", "buf1"),
        (
            "buf3 = triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(buf1, [64, 64])",
            "view",
            "buf1",
        ),
        ("buf3 = buf2[0]", "unpack", "buf2"),
        ("buf3 = buf2[0][1]", "unpack", "buf2"),
        ("buf3 = buf2", "unpack", "buf2"),
        ("s77 = arg0_1", "symbol", "arg0_1"),
        ("s27 = arg1_1_size[0]", "symbol", "arg1_1_size"),
    ],
)
def test_alias(statement: str, kind: str, source: str) -> None:
    step = only(statement)
    assert isinstance(step, Alias)
    assert (step.kind, step.source) == (kind, source)


@pytest.mark.parametrize(
    "statement",
    [
        "u0 = arg0_1.item()",
        "u0 = reinterpret_tensor(arg0_1, (), (), 1).item()",
        "u0 = 1 if arg0_1.item() else 0",
        "u1 = buf0[0].size(0)",
        "buf4 = None",
        "buf1.copy_(buf0, False)",
        "workspace_0.zero_()",
        "triton_red_fused_0_xnumel = 4*s50",
        "stream0 = get_raw_stream(0)",
        "with torch.cuda._DeviceGuard(0):",
        "raise RuntimeError('Eq((u0 + u1, 6)')",
        "assert not buf0.isnan().any().item()",
        "_d2h_event_buf0.synchronize()",
        "assert_alignment(buf0, 16, 'torch.ops.aten.sort.default')",
        "run_intermediate_hooks('mm', buf0)",
        "return_vars = (buf0, buf1, )",
        "buf0 = [None] * 2",
        "buf0[1] = arg1_1",
        "# subgraph: true_graph_0",
    ],
)
def test_no_launch(statement: str) -> None:
    step = only(statement)
    assert isinstance(step, OtherStep)
    assert step.text == statement


def test_item_in_arguments_is_no_launch() -> None:
    code = parse(
        "triton_poi_fused_add_0.run(arg0_1, arg1_1.item(), 128, stream=stream0)", definitions=TRITON_2_4
    )
    (call,) = code.calls
    assert call.arguments == ("arg0_1", "arg1_1.item()", "128", "stream=stream0")


def test_symbols_are_no_buffers() -> None:
    code = parse("s77 = arg0_1", "buf0 = torch.ops.aten.full.default([s77, arg0_1], 1, arg1_1)")
    assert code.calls[0].buffers == ("arg1_1",)


def test_free_and_assertions() -> None:
    assert only("del arg0_1, arg1_1") == Free(("arg0_1", "arg1_1"), only("del arg0_1").span)
    grouped = [
        step
        for step in parse(
            "assert_size_stride(arg0_1, (4, s0*((s1 + 1)//2)), (s0, 1))",
            "assert_size_stride_grouped((arg0_1, arg1_1), ((100, 8), ()), ((8, 1), ()), 'input')",
            "assert_size_stride_grouped((arg0_1,), ((7,),), ((1,),), 'input')",
        ).steps
        if isinstance(step, SizeAssertion)
    ]
    assert [(step.name, step.size, step.stride) for step in grouped] == [
        ("arg0_1", (4, "s0*((s1 + 1)//2)"), ("s0", 1)),
        ("arg0_1", (100, 8), (8, 1)),
        ("arg1_1", (), ()),
        ("arg0_1", (7,), (1,)),
    ]


def test_statement_over_several_lines() -> None:
    code = parse("extern_kernels.mm(", "    arg0_1,", "    arg1_1,", "    out=buf0", ")", "del arg0_1")
    (call,) = code.calls
    assert (len(call.span), call.outputs, call.arguments) == (5, (), ("arg0_1", "arg1_1", "out=buf0"))
    assert isinstance(code.steps[-2], Free)


def test_unfinished_statement_keeps_the_rest() -> None:
    code = parse("extern_kernels.mm(arg0_1,", "del arg0_1")
    assert [problem.message for problem in code.problems] == ["unfinished statement"]
    assert isinstance(code.steps[-2], Free)


def test_handles_with_several_names() -> None:
    code = parse(
        "# Unsorted Source Nodes: [a, , b], Original ATen: []",
        "# [Provenance debug handles] triton_poi_fused_add_0:7, extern_kernels.mm:12",
        "extern_kernels.mm(arg0_1, arg1_1, out=buf0)",
        "extern_kernels.mm(arg0_1, arg1_1, out=buf0)",
    )
    first, second = code.calls
    assert first.handle == 12
    (call,) = parse(
        "# [Provenance debug handles] x:y::2 ,z:1,z:", "extern_kernels.mm(arg0_1, out=buf0)"
    ).calls
    assert call.handle == 2
    (call,) = parse("# [Provenance debug handles] a::b:c:", "extern_kernels.mm(arg0_1, out=buf0)").calls
    assert call.handle is None
    assert first.origin is not None and first.origin.source_nodes == ("a", "b")
    assert (second.handle, second.origin) == (None, None)


PARTITIONED = """
def partition_0(args):
    arg0_1, = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided_cuda((8, ), (1, ), torch.float32)
        extern_kernels.first(arg0_1, out=buf0)
    return (buf0, )

def partition_1(args):
    buf1, = args
    args.clear()
    buf2 = extern_kernels.third(buf1)
    return (buf2, )


async_compile.wait(globals())
del async_compile

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def call(self, args):
        arg0_1, = args
        args.clear()
        partition0_args = [arg0_1,]
        (buf0,) = self.partitions[0](partition0_args)
        buf1 = torch.ops.mylib.second.default(buf0)
        (buf2,) = self.partitions[1](partition1_args)
        extern_kernels.fourth(buf2, out=buf0)
        return (buf2, )

runner = Runner(partitions=[partition_0,partition_1,])
call = runner.call
"""


def test_partitions_with_code_between() -> None:
    code = parse_output_code(PARTITIONED, "p")
    assert code.problems == () and code.partitions == 2
    assert [(call.kernel.rpartition(".")[2], call.partition) for call in code.calls] == [
        ("first", 0), ("default", None), ("third", 1), ("fourth", None),
    ]  # fmt: skip
    assert code.calls[1].buffers == ("buf0",)
    assert code.inputs == ("arg0_1",)


def test_partitions_survive_a_file_without_call() -> None:
    code = parse_output_code(PARTITIONED[: PARTITIONED.index("class Runner")], "p")
    assert [call.kernel for call in code.calls] == ["extern_kernels.first", "extern_kernels.third"]
    assert [problem.message for problem in code.problems] == ["no wrapper function `call`"]


def test_subgraphs_that_call_each_other_end() -> None:
    loop = "def sub(args):\n    buf0 = sub(sub_args)\n    return ()\n\n"
    code = parse_output_code(wrapper("buf0 = sub(sub_args)", before=loop), "p")
    assert any("called too often" in problem.message for problem in code.problems)
    many = "".join(f"def sub{n}(args):\n" + f"    buf0 = sub{n + 1}(a)\n" * 2 + "\n" for n in range(40))
    code = parse_output_code(wrapper("buf0 = sub0(a)", before=many + "def sub40(args):\n    pass\n"), "p")
    assert len(code.steps) < 100_000


EXAMPLES = """

def get_args():
    from torch._dynamo.testing import rand_strided
    global constant0
    constant0 = rand_strided((4, ), (1, ), device='cpu', dtype=torch.float32)
    _shared_storage_16 = rand_strided((64,), (1,), device='cuda:0', dtype=torch.bfloat16)
    primals_1 = torch.as_strided(_shared_storage_16, (4, 8), (8, 1))
    primals_2 = torch.as_strided(_shared_storage_16, (4, ), (1, ), 32)
    primals_3 = 16
    primals_4 = 2.5
    primals_5 = None
    primals_6 = torch.cuda.default_generators[0].graphsafe_get_state()
    primals_7 = False
    primals_8 = rand_strided((0, 4), (4, 1), device='cuda:1', dtype=torch.float8_e4m3fn)
    primals_9 = mystery(3)
    return [primals_1]


def benchmark_compiled_module(args, times=10, repeat=10):
    fn = lambda: call(list(args))
"""


def test_example_inputs() -> None:
    text = wrapper() + EXAMPLES
    code = parse_output_code(text, "p")
    first = text[: text.index("    primals_1 =")].count("\n") + 1
    none = (None, None, None, None)
    assert code.example_inputs == (
        ExampleInput("primals_1", (4, 8), (8, 1), "bfloat16", "cuda:0", None, first, "_shared_storage_16"),
        ExampleInput(
            "primals_2", (4,), (1,), "bfloat16", "cuda:0", None, first + 1, "_shared_storage_16", 32
        ),
        ExampleInput("primals_3", *none, 16, first + 2),
        ExampleInput("primals_4", *none, 2.5, first + 3),
        ExampleInput("primals_5", *none, None, first + 4),
        ExampleInput("primals_6", *none, None, first + 5),
        ExampleInput("primals_7", *none, False, first + 6),
        ExampleInput("primals_8", (0, 4), (4, 1), "float8_e4m3fn", "cuda:1", None, first + 7),
        ExampleInput("primals_9", *none, None, first + 8),
    )
    (problem,) = code.problems
    assert (problem.line, problem.message) == (first + 8, "example input not understood: mystery(3)")


def test_outputs() -> None:
    text = wrapper("return_vars = (buf1, )").replace(
        "return (buf0, )", "return (buf0, None, reinterpret_tensor(buf1, (8, ), (1, ), 0), s0, )"
    )
    assert parse_output_code(text, "p").outputs == (
        "buf0",
        "None",
        "reinterpret_tensor(buf1, (8, ), (1, ), 0)",
        "s0",
    )
    assert parse_output_code(text.replace("return (buf0, None,", "return () #"), "p").outputs == ()


def test_header() -> None:
    assert parse().aot_id == "3_forward"
    assert parse_output_code("\n# AOT ID: ['0_inference']\n", "p").aot_id == "0_inference"


# Damage.


def test_empty_and_garbage() -> None:
    for text, message in (
        ("", "empty file"),
        ("\n \n", "empty file"),
        ("\x00\x01 )))(((''' def call(args):", "no wrapper function `call`"),
    ):
        code = parse_output_code(text, "folder/output_code.py")
        assert code.kernels == () and code.steps == () and code.text == text
        assert [(p.path, p.message) for p in code.problems] == [("folder/output_code.py", message)]


def test_crlf_reads_like_lf() -> None:
    text = wrapper("extern_kernels.mm(arg0_1, arg1_1, out=buf0)", definitions=DEFINITIONS) + EXAMPLES
    assert parse_output_code(text.replace("\n", "\r\n"), "p") == parse_output_code(text, "p")


@pytest.mark.parametrize("parts", [("cudagraphs",), ("cpu-torch2.4.1", "softmax"), ("wrappers", "cond")])
def test_a_cut_file_keeps_what_precedes_the_cut(
    parsed: dict[Path, OutputCode], parts: tuple[str, ...]
) -> None:
    whole = find(parsed, *parts)
    known = {(call.kernel, call.span.first) for call in whole.calls}
    last_line = whole.text.count("\n") + 1
    for cut in range(0, len(whole.text), 23):
        text = whole.text[:cut]
        code = parse_output_code(text, "p")
        cut_line = text.count("\n") + 1
        found = {(call.kernel, call.span.first) for call in code.calls}
        assert found >= {call for call in known if call[1] < cut_line}, cut
        assert {call for call in found if call[1] < cut_line} <= known, cut
        complete = {kernel for kernel in whole.kernels if kernel.span and kernel.span.last < cut_line}
        assert complete <= set(code.kernels), cut
        if cut_line < last_line and "return (" not in text.rpartition("def call(")[2]:
            assert code.problems, cut
        assert all(problem.line is not None and problem.line <= cut_line for problem in code.problems), cut


def test_a_definition_that_is_cut_off_keeps_its_source() -> None:
    text = wrapper(definitions=USER_KERNEL)
    cut = parse_output_code(text[: text.index("    tl.atomic_add")], "p")
    (kernel,) = cut.kernels
    assert kernel.kind == "user" and kernel.source.endswith("tl.load(x))\n")
    assert "the definition of scale_kernel_0 is cut off" in [problem.message for problem in cut.problems]
    assert cut.problems[0].line == text[: text.index("scale_kernel_0 = ")].count("\n") + 1


@pytest.mark.parametrize(("definition", "kind"), [(USER_KERNEL, "user"), (TRITON_2_4, "triton")])
def test_a_kernel_without_its_decorator_is_known_by_its_names(definition: str, kind: str) -> None:
    text = wrapper(definitions=definition)
    (kernel,) = parse_output_code(text[: text.index("@triton_heuristics")], "p").kernels
    assert (kernel.kind, kernel.heuristic) == (kind, None)


def test_a_long_chain_of_subgraphs_is_cut_short() -> None:
    chain = "".join(f"def sub{n}(args):\n    buf0 = sub{n + 1}(a)\n\n" for n in range(2000))
    code = parse_output_code(wrapper("buf0 = sub0(a)", before=chain), "p")
    assert any("called too often" in problem.message for problem in code.problems)


def test_code_for_an_arm_is_read_like_that_for_an_x86(tmp_path: Path) -> None:
    """Inductor's code for the same program, with AVX and with ASIMD given to it on an x86 (its compiler then
    rejects the second, so neither ran on an ARM); places are rewritten as a Mac's."""
    folder = unpacked(Path(__file__).parent / "data" / "extra" / "asimd-torch2.13.tar.xz", tmp_path) / "pack"
    told = []
    for name, lanes in (("asimd", 4), ("avx", 16)):
        code = parse_output_code(read_text(folder / f"{name}.py")[0], name)
        (kernel,) = (item for item in code.kernels if item.kind == "cpp")
        assert f"static_cast<int64_t>({lanes}))" in kernel.source
        points = [nest.points for nest in loop_nests(kernel.source)]
        told.append(
            (points, starts_threads(kernel.source), [(call.kind, call.kernel) for call in code.calls])
        )
        assert not code.problems
    assert told[0] == told[1] and told[0][0] == [34304, 512, 34304, 34304, 34304, 34304]
