"""Reading fx_graph_runnable.py: what it says of the machine, the graph and its inputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inspector.model.fx import FxGraph
from inspector.model.runnable import RunnableInput, RunnableScript
from inspector.model.source import numel
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.runnable import contiguous, parse_runnable

BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "bool": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
}

SCRIPT = """\
s33 = 2
s50 = 300


import os
os.environ['TORCH_LOGS'] = 'fusion,"x"'
os.environ['TORCHINDUCTOR_NOTE'] = 'two
lines'
os.environ.pop('TORCHDYNAMO_REPRO_AFTER', None)

import torch
torch._inductor.config.triton.store_cubin = False
torch._functorch.config.names = ['a', 'b']
torch.fx.experimental._config.use_duck_shape = True

# torch version: 2.11.0+cu130
# torch cuda version: 13.0
# torch git version: 70d99e99


# CUDA Info:\x20
# nvcc: NVIDIA (R) Cuda compiler driver\x20
# Build cuda_13.0.r13.0/compiler.36424714_0\x20

# GPU Hardware Info:\x20
# NVIDIA H200 : 7\x20
# NVIDIA T4 : 1\x20

torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.reset_table()
BLOCK = 16
from torch.nn import *
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.true_graph_0 = <lambda>()
        self.register_buffer('_frozen_param0', tensor([[1., 2.],
        [3., 4.]]))



    def forward(self, arg0_1, arg1_1):
        mul = arg0_1 * 2;  arg0_1 = None
        return (mul, arg1_1)

def load_args(reader):
    buf0 = reader.storage('9f86d0', 256*s77, device=device(type='cuda', index=0), dtype_hint=torch.bfloat16)
    reader.tensor(buf0, ((s50//2), s77, 64), dtype=torch.bfloat16, requires_grad=True, is_leaf=True)  # arg0_1
    reader.tensor(buf0, (4, 8), (1, 4), dtype=torch.bfloat16, storage_offset=16)  # arg1_1
    buf1 = reader.storage(None, 1, dtype_hint=torch.bool)
    reader.tensor(buf1, (), dtype=torch.bool)  # arg2_1
    reader.symint(16, expr='s77')  # arg3_1
    reader.symint(0.5)  # arg4_1
    reader.const('arg5_1')  # arg5_1, filtered out during compilation
    reader.generator('cuda', 0)  # arg6_1
    reader.opaque('__torch__.torch.classes.c10d.ProcessGroup')  # arg7_1
    reader.unsupported('arg8_1')  # unsupported type for dumping: <class 'list'>
    \"\"\"
    reader.tensor(buf1, (), dtype=torch.bool)  # arg8_1[0]
    \"\"\"
    # Fixup: ensure sum(repeats) == output_size for repeat_interleave
    if hasattr(reader, 'args'):
        _repeats = reader.args[0]
load_args._version = 0
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
    with torch.no_grad():
        run_repro(mod, load_args, accuracy=False, command='run', save_dir='/home/user/s', tracing_mode='symbolic', check_str=None)
"""  # noqa: E501


def read(folder: Path) -> RunnableScript:
    return parse_runnable((folder / "fx_graph_runnable.py").read_text(), "fx_graph_runnable.py")


def repro_graph(script: RunnableScript) -> FxGraph:
    """The graph of ``class Repro``, which has no annotations."""
    return parse_fx_graph(script.graph_text, script.path, script.graph_span.first if script.graph_span else 1)


def test_inputs_are_the_placeholders_of_the_graph(corpus_graphs: list[Path]) -> None:
    """Names, shapes and dtypes as fx_graph_readable.py annotates them; memory large enough for them."""
    tensors = 0
    for folder in corpus_graphs:
        script = read(folder)
        graph = parse_fx_graph((folder / "fx_graph_readable.py").read_text(), "x")
        assert script.problems == () and [item.name for item in script.inputs] == [
            n.name for n in graph.placeholders
        ]
        lines = script.text.split("\n")
        for item, node in zip(script.inputs, graph.placeholders, strict=True):
            assert lines[item.line - 1].strip() == item.text and script.input(item.name) is item
            if node.meta is None:
                assert item.kind == "symint" and isinstance(item.value, int)
                if item.expression is not None:
                    assert node.annotation == f"Sym({item.expression})"
                continue
            tensors += 1
            assert (item.shape, item.dtype) == (node.meta.shape, node.meta.dtype)
            assert item.stride is not None and item.shape is not None and len(item.stride) == len(item.shape)
            count = numel(item.shape)
            if count is not None and isinstance(item.storage_bytes, int) and isinstance(item.offset, int):
                assert item.storage_bytes >= (count + item.offset) * BYTES[str(item.dtype)]
            (storage,) = [line for line in lines if f" {item.storage} = reader.storage(" in line]
            assert item.device == ("cuda:0" if "device=device(type='cuda', index=0)" in storage else "cpu")
    assert tensors == 977


def test_versions_devices_and_settings(corpus_graphs: list[Path]) -> None:
    for folder in corpus_graphs:
        script = read(folder)
        kind, version = re.findall(r"/(cpu|h200)-torch([\d.]+)/", str(folder))[0]
        assert script.torch_version is not None and script.torch_version.startswith(version)
        assert len(script.git_version or "") == 40
        if kind == "h200":
            assert (
                script.devices == (("NVIDIA H200", 1),) and script.has_gpu and script.cuda_version == "13.0"
            )
            assert script.toolkit[0].startswith("nvcc: NVIDIA")
        else:
            assert (script.cuda_version is None) == (script.torch_version.endswith("+cpu"))
            assert script.devices == () and script.has_gpu is False and script.toolkit == ()
        assert ("TORCH_COMPILE_DEBUG" in script.environment) == (version not in ("2.4.1", "2.6.0"))
        settings = [
            line for line in script.text.split("\n") if line.startswith("torch.") and "config." in line
        ]
        assert [f"{name} = {value}" for name, value in script.config] == settings and len(settings) >= (
            version > "2.6"
        )
        assert script.tracing_mode == (
            "symbolic" if re.search(r"^    buf\d+ = .*\bs\d+", script.text, re.M) else "real"
        )


def test_the_graph_is_that_of_the_readable_file(corpus_graphs: list[Path]) -> None:
    for folder in corpus_graphs:
        script = read(folder)
        repro = repro_graph(script)
        graph = parse_fx_graph((folder / "fx_graph_readable.py").read_text(), "x")
        assert repro.problems == () and repro.class_name == "Repro" and repro.outputs == graph.outputs
        # inductor may reorder calls between the two prints, by the order of their inputs
        assert {(n.name, n.target, n.arguments) for n in repro.nodes} == {
            (n.name, n.target, n.arguments) for n in graph.nodes
        }
        lines = script.text.split("\n")
        assert script.graph_span is not None and lines[script.graph_span.first - 1].startswith("class Repro(")
        assert lines[script.graph_span.last - 1].strip().startswith("return")
        assert all(node.text in lines[node.line - 1] for node in repro.nodes)


def test_every_form_of_an_input() -> None:
    script = parse_runnable(SCRIPT, "x")
    assert script.problems == ()
    first, second, flag, size, scale, const, generator, group, unsupported = script.inputs
    assert (first.shape, first.stride) == (("(s50//2)", "s77", 64), ("64*s77", 64, 1))
    assert (first.dtype, first.device, first.requires_grad) == ("bfloat16", "cuda:0", True)
    assert (first.storage, first.storage_hash, first.storage_bytes) == ("buf0", "9f86d0", "256*s77")
    assert (second.storage, second.stride, second.offset, second.requires_grad) == ("buf0", (1, 4), 16, False)
    assert (flag.shape, flag.stride, flag.dtype, flag.device, flag.storage_hash) == (
        (),
        (),
        "bool",
        "cpu",
        None,
    )
    assert (size.kind, size.value, size.expression) == ("symint", 16, "s77")
    assert (scale.value, scale.expression) == (0.5, None)
    assert (const.kind, const.name) == ("const", "arg5_1")
    assert (generator.kind, generator.name, generator.device) == ("generator", "arg6_1", "cuda:0")
    assert (group.kind, group.name) == ("opaque", "arg7_1")
    assert (unsupported.kind, unsupported.name) == ("unsupported", "arg8_1")


def test_every_other_fact() -> None:
    script = parse_runnable(SCRIPT, "x")
    assert script.symbols == {"s33": 2, "s50": 300}
    assert script.environment == {"TORCH_LOGS": 'fusion,"x"', "TORCHINDUCTOR_NOTE": "two\nlines"}
    assert script.config == (
        ("torch._inductor.config.triton.store_cubin", "False"),
        ("torch._functorch.config.names", "['a', 'b']"),
        ("torch.fx.experimental._config.use_duck_shape", "True"),
    )
    assert (script.torch_version, script.cuda_version, script.git_version) == (
        "2.11.0+cu130",
        "13.0",
        "70d99e99",
    )
    assert script.devices == (("NVIDIA H200", 7), ("NVIDIA T4", 1)) and len(script.toolkit) == 2
    assert (script.tracing_mode, script.save_dir) == ("symbolic", "/home/user/s")
    graph = repro_graph(script)
    assert [node.name for node in graph.nodes] == ["arg0_1", "arg1_1", "mul"] and graph.outputs == (
        "mul",
        "arg1_1",
    )


@pytest.mark.parametrize(
    ("shape", "stride"),
    [
        ((), ()),
        ((4, 3, 2), (6, 2, 1)),
        ((4, 0, 2), (2, 2, 1)),
        (("s0", 3, "s1 + 1", 2), ("6*(s1 + 1)", "2*(s1 + 1)", 2, 1)),
        ((2, "s0", "s1"), ("1*s1*s0", "1*s1", 1)),
    ],
)
def test_strides_that_torch_leaves_out(shape: tuple[int | str, ...], stride: tuple[int | str, ...]) -> None:
    assert contiguous(shape) == stride


def inputs_before(inputs: tuple[RunnableInput, ...], line: int) -> list[RunnableInput]:
    return [item for item in inputs if item.line < line]


def test_cut_anywhere() -> None:
    whole = parse_runnable(SCRIPT, "x")
    end = SCRIPT.index("load_args._version") + len("load_args.")
    for cut in range(len(SCRIPT)):
        script = parse_runnable(SCRIPT[:cut], "x")
        intact = inputs_before(whole.inputs, SCRIPT.count("\n", 0, cut) + 1)
        assert list(script.inputs[: len(intact)]) == intact, cut
        assert bool(script.problems) == (cut < end), cut


def test_a_foreign_line_and_an_unknown_form() -> None:
    damaged = SCRIPT.replace(
        "    reader.symint(16", "%% foreign\n    reader.newform(1)  # argX\n    reader.symint(16"
    )
    script = parse_runnable(damaged, "x")
    assert [item.name for item in script.inputs] == [item.name for item in parse_runnable(SCRIPT, "x").inputs]
    lines = damaged.split("\n")
    assert [lines[(problem.line or 0) - 1].strip() for problem in script.problems] == [
        "%% foreign",
        "reader.newform(1)  # argX",
    ]


@pytest.mark.parametrize("text", ["", "garbage", "\x00" * 99, "class Repro(", "def load_args(reader):"])
def test_garbage_never_raises(text: str) -> None:
    script = parse_runnable(text, "x")
    assert script.problems and script.inputs == () and repro_graph(script).operations == ()


def test_a_script_that_torch_did_not_write() -> None:
    text = "Repro is not generated due to existence of BackwardState in graph input"
    assert text in [problem.message for problem in parse_runnable(text, "x").problems]


def test_windows_line_ends() -> None:
    assert parse_runnable(SCRIPT.replace("\n", "\r\n"), "x") == parse_runnable(SCRIPT, "x")
