"""Reading fx_graph_runnable.py: what it says of the machine, the settings and symbolic sizes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inspector.readers.runnable import parse_runnable

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


def test_devices_settings_and_symbols(corpus_graphs: list[Path]) -> None:
    symbolic = 0
    for folder in corpus_graphs:
        text = (folder / "fx_graph_runnable.py").read_text()
        script = parse_runnable(text, "x")
        assert script.problems == ()
        kind, version = re.findall(r"/(cpu|h200)-torch([\d.]+)/", str(folder))[0]
        assert script.devices == ((("NVIDIA H200", 1),) if kind == "h200" else ())
        settings = [line for line in text.split("\n") if line.startswith("torch.") and "config." in line]
        assert [f"{name} = {value}" for name, value in script.config] == settings
        assert len(settings) >= (version > "2.6")
        symbolic += bool(script.symbols)
    assert symbolic


def test_every_fact() -> None:
    script = parse_runnable(SCRIPT, "x")
    assert script.problems == ()
    assert script.symbols == {"s33": 2, "s50": 300}
    assert script.config == (
        ("torch._inductor.config.triton.store_cubin", "False"),
        ("torch._functorch.config.names", "['a', 'b']"),
        ("torch.fx.experimental._config.use_duck_shape", "True"),
    )
    assert script.devices == (("NVIDIA H200", 7), ("NVIDIA T4", 1))


def test_cut_anywhere() -> None:
    end = SCRIPT.index("load_args._version") + len("load_args.")
    for cut in range(len(SCRIPT)):
        assert bool(parse_runnable(SCRIPT[:cut], "x").problems) == (cut < end), cut


@pytest.mark.parametrize("text", ["", "garbage", "\x00" * 99, "class Repro(", "def load_args(reader):"])
def test_garbage_never_raises(text: str) -> None:
    assert parse_runnable(text, "x").problems


def test_a_script_that_torch_did_not_write() -> None:
    text = "Repro is not generated due to existence of BackwardState in graph input"
    assert text in [problem.message for problem in parse_runnable(text, "x").problems]


def test_windows_line_ends() -> None:
    assert parse_runnable(SCRIPT.replace("\n", "\r\n"), "x") == parse_runnable(SCRIPT, "x")
