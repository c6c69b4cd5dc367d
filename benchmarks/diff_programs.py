"""Pairs of small programs of which it is known, from how they are made, which kernels of both are the same.

Every step multiplies by a constant of its own, which stands in the kernel's source, and every matrix has a
width of its own, which stands in the library call: what a launch computes can be read there, without FX graphs,
source lines or names. A pair is a program and the same after one edit, or under another setting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

_HEAD = """import torch
import torch.nn.functional as F
torch.manual_seed(0)
"""

BLOCKS = (
    _HEAD
    + """
class Block(torch.nn.Module):
    def __init__(self, width, hidden, scale):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, width)
        self.scale = scale
    def forward(self, x):
        y = F.gelu(self.up(x)) * self.scale
        return x + self.down(y)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(64, h, s) for h, s in ((72, 1.0101), (80, 1.0202), (88, 1.0303))])
        self.head = torch.nn.Linear(64, 24)
    def forward(self, x):
        x = torch.tanh(x) * 1.0404
        for block in self.blocks:
            x = block(x)
        x = F.layer_norm(x, (64,)) * 1.0505
        return F.softmax(self.head(x) * 1.0606, -1)

model = torch.compile(Model())
x = torch.randn(16, 64)
with torch.no_grad():
    for _ in range(2):
        model(x)
"""
)

REDUCTIONS = (
    _HEAD
    + """
def step(x, y):
    a = torch.relu(x * 1.1101).sum(0)
    b = torch.sigmoid(y * 1.1202).amax(1)
    c = torch.cumsum(x * 1.1303, 1)
    d = torch.sort(y * 1.1404)[0]
    e = (torch.exp(y * 0.1505) - d).mean(0)
    return a, b, c * 1.1606, d, e

compiled = torch.compile(step)
x, y = torch.randn(96, 128), torch.randn(96, 128)
for _ in range(2):
    compiled(x, y)
"""
)

CONVOLUTIONS = (
    _HEAD
    + """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = torch.nn.Conv2d(3, 12, 3, padding=1), torch.nn.Conv2d(12, 20, 3, padding=1)
        self.b1 = torch.nn.BatchNorm2d(12)
        self.out = torch.nn.Linear(20, 28)
    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)) * 1.2101)
        x = F.max_pool2d(x, 2)
        x = F.silu(self.c2(x) * 1.2202)
        x = x.mean((2, 3)) * 1.2303
        return self.out(x).square() * 1.2404

net = torch.compile(Net())
x = torch.randn(4, 3, 16, 16)
for _ in range(2):
    net(x).sum().backward()
"""
)

ATTENTION = (
    _HEAD
    + """
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(48, width) for width in (56, 56, 104))
        self.o = torch.nn.Linear(104, 48)
    def forward(self, x):
        h = F.layer_norm(x, (48,)) * 1.3101
        q, k, v = self.q(h) * 1.3202, self.k(h) * 1.3303, self.v(h) * 1.3404
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.1505, -1)
        return x + torch.tanh(self.o(weights @ v)) * 1.3606

layer = torch.compile(Layer())
x = torch.randn(2, 40, 48)
for _ in range(2):
    layer(x).mean().backward()
"""
)

TOWERS = (
    _HEAD
    + """
class Tower(torch.nn.Module):
    def __init__(self, width, first, second):
        super().__init__()
        self.value, self.gate = torch.nn.Linear(36, width), torch.nn.Linear(36, width + 4)
        self.out = torch.nn.Linear(width, 36)
        self.first, self.second = first, second
    def forward(self, x):
        gate = torch.sigmoid(self.gate(x) * self.first)[..., :-4]
        return self.out(gate * self.value(x)) * self.second

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 36)
        self.towers = torch.nn.ModuleList([Tower(*given) for given in ((52, 1.4101, 1.4202), (68, 1.4303, 1.4404))])
        self.last = torch.nn.Linear(36, 76)
    def forward(self, tokens):
        x = self.table(tokens) * 1.4505
        for tower in self.towers:
            x = F.rms_norm(x + tower(x), (36,))
        pooled = x.amax(1) * 1.4606
        return F.log_softmax(self.last(pooled) * 1.4707, -1)

model = torch.compile(Model())
tokens = torch.randint(50, (6, 14))
with torch.no_grad():
    for _ in range(2):
        model(tokens)
"""
)

CELLS = (
    _HEAD
    + """
class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.keep, self.new = torch.nn.Linear(32, 44), torch.nn.Linear(44, 60)
        self.back = torch.nn.Linear(60, 32)
    def forward(self, x, h, one, two, three):
        k = torch.sigmoid(self.keep(x + h) * one)
        return torch.tanh(self.back(F.softplus(self.new(k) * two))) + h * three

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read = Cell(), torch.nn.Linear(32, 84)
    def forward(self, xs):
        h = torch.zeros_like(xs[0])
        steps = (1.5101, 1.5202, 1.5303), (1.5404, 1.5505, 1.5606), (1.5707, 1.5808, 1.5909)
        for x, scales in zip(xs.unbind(0), steps):
            h = self.cell(x, h, *scales)
        return (self.read(h * 1.6101) * 1.6202).logsumexp(-1)

model = torch.compile(Model())
xs = torch.randn(3, 10, 32)
for _ in range(2):
    model(xs).sum().backward()
"""
)

SEGMENTS = (
    _HEAD
    + """
def step(x, y, index):
    a = torch.zeros(16, 56).index_add(0, index, torch.tanh(x * 1.7101))
    b = torch.gather(F.relu(y * 1.7202), 1, index[:, None].expand(-1, 20))
    c = torch.where(x > 0, x * 1.7303, x.exp()).std(1)
    d = torch.topk(y * 1.7404, 5)[0].cumsum(1) * 1.7505
    e = F.interpolate(y[None, None] * 1.7606, scale_factor=2.0)[0, 0].mean(1)
    f = torch.cat((a, b[:16].repeat(1, 2)), 1) * 1.7707
    return c, d, e, f.argmax(1)

compiled = torch.compile(step)
x, y, index = torch.randn(48, 56), torch.randn(48, 72), torch.arange(48) % 16
for _ in range(2):
    compiled(x, y, index)
"""
)

IMAGES = (
    _HEAD
    + """
class Stage(torch.nn.Module):
    def __init__(self, into, out, first, second):
        super().__init__()
        self.deep = torch.nn.Conv2d(into, into, 3, padding=1, groups=into)
        self.wide = torch.nn.Conv2d(into, out, 1)
        self.norm = torch.nn.GroupNorm(2, out)
        self.first, self.second = first, second
    def forward(self, x):
        x = F.hardswish(self.deep(x) * self.first)
        return F.avg_pool2d(F.elu(self.norm(self.wide(x)) * self.second), 2)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = torch.nn.Sequential(Stage(6, 14, 1.8101, 1.8202), Stage(14, 22, 1.8303, 1.8404), Stage(22, 30, 1.8505, 1.8606))
        self.head = torch.nn.Linear(30, 18)
    def forward(self, x):
        x = self.stages(F.pad(x, (1, 1, 1, 1)) * 1.8707)
        return torch.var(self.head(x.flatten(2).mean(-1)) * 1.8808, -1)

net = torch.compile(Net())
x = torch.randn(2, 6, 22, 22)
with torch.no_grad():
    for _ in range(2):
        net(x)
"""
)


@dataclass(frozen=True)
class Pair:
    """`edits` are (text, its replacement) in the program. `config` are settings of torch._inductor for B. `widths` are
    the sizes that tell library calls apart."""

    name: str
    program: str
    base: str
    edits: tuple[tuple[str, str], ...] = ()
    config: dict[str, object] = field(default_factory=dict)
    widths: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """B's program."""
        text = self.program
        for old, new in self.edits:
            assert old in text, (self.name, old)
            text = text.replace(old, new)
        lines = "".join(f"torch._inductor.config.{name} = {value!r}\n" for name, value in self.config.items())
        return (
            text.replace("torch.manual_seed(0)\n", f"import torch._inductor.config\n{lines}")
            if lines
            else text
        )


_B = partial(Pair, program=BLOCKS, base="blocks", widths=(72, 80, 88, 24))
_R = partial(Pair, program=REDUCTIONS, base="reductions")
_C = partial(Pair, program=CONVOLUTIONS, base="convolutions", widths=(12, 20, 28))
_A = partial(Pair, program=ATTENTION, base="attention", widths=(56, 104, 40))
_T = partial(Pair, program=TOWERS, base="towers", widths=(52, 56, 68, 72, 76))
_L = partial(Pair, program=CELLS, base="cells", widths=(44, 60, 84))
_S = partial(Pair, program=SEGMENTS, base="segments")
_I = partial(Pair, program=IMAGES, base="images", widths=(14, 22, 30, 18))

PAIRS = (
    _B("operator added", edits=(("x = torch.tanh(x) * 1.0404", "x = torch.tanh(x.sin()) * 1.0404"),)),
    _B("operator added in every layer", edits=(("F.gelu(self.up(x)) * self.scale", "F.gelu(self.up(x)).abs() * self.scale"),)),
    _B("last layer removed", edits=((", (88, 1.0303)", ""),)),
    _B("middle layer removed", edits=((", (80, 1.0202)", ""),)),
    _B("layer inserted in front", edits=(("((72, 1.0101)", "((96, 1.0707), (72, 1.0101)"),)),
    _B("break introduced", edits=(("        x = F.layer_norm", "        torch._dynamo.graph_break()\n        x = F.layer_norm"),)),
    _B("bfloat16", edits=(("torch.compile(Model())", "torch.compile(Model().bfloat16())"), ("randn(16, 64)", "randn(16, 64, dtype=torch.bfloat16)"))),
    _B("dynamic sizes", edits=(("torch.compile(Model())", "torch.compile(Model(), dynamic=True)"),)),
    _B("another batch", edits=(("randn(16, 64)", "randn(208, 64)"),)),
    _B("lines moved and renamed", edits=(("\nclass Block", "\n# a comment\n\n\nclass Block"), ("y = F.gelu(self.up(x)) * self.scale\n        return x + self.down(y)", "hidden = F.gelu(self.up(x)) * self.scale\n        return x + self.down(hidden)"))),
    _B("trained, not only called", edits=(("with torch.no_grad():\n    for _ in range(2):\n        model(x)", "for _ in range(2):\n    model(x).sum().backward()"),)),
    _R("nothing fuses", config={"max_fusion_size": 1}),
    _R("operators removed", edits=(("    c = torch.cumsum(x * 1.1303, 1)\n", ""), ("c * 1.1606, ", ""))),
    _R("a reduction over the other side", edits=((".sum(0)", ".sum(1)"),)),
    _C("nothing fuses, trained", config={"max_fusion_size": 1}),
    _C("activation exchanged", edits=(("F.silu", "F.mish"),)),
    _C("float64", edits=(("torch.compile(Net())", "torch.compile(Net().double())"), ("16, 16)", "16, 16, dtype=torch.float64)"))),
    _C("break in the middle, trained", edits=(("        x = F.max_pool2d", "        torch._dynamo.graph_break()\n        x = F.max_pool2d"),)),
    _A("nothing fuses, attention", config={"max_fusion_size": 1}),
    _A("scale moved, operator added", edits=(("weights = torch.softmax(q @ k.transpose(-1, -2) * 0.1505, -1)\n        return x + torch.tanh(self.o(weights @ v)) * 1.3606", "weights = torch.softmax((q * 0.1505) @ k.transpose(-1, -2), -1)\n        return x + torch.tanh(self.o(weights @ v)).sin() * 1.3606"),)),
    _T("tower added at the end", edits=((", (68, 1.4303, 1.4404))", ", (68, 1.4303, 1.4404), (92, 1.4808, 1.4909))"),)),
    _T("first tower removed", edits=(("(52, 1.4101, 1.4202), ", ""), ("1.4404))])", "1.4404),)])"))),
    _T("two breaks introduced", edits=(("            x = F.rms_norm(x + tower(x), (36,))\n", "            x = F.rms_norm(x + tower(x), (36,))\n            torch._dynamo.graph_break()\n"),)),
    _T("nothing fuses, towers", config={"max_fusion_size": 1}),
    _L("a step fewer, trained", edits=((", (1.5707, 1.5808, 1.5909)\n", "\n"), ("xs = torch.randn(3", "xs = torch.randn(2"))),
    _L("operator in the cell, trained", edits=(("F.softplus(self.new(k)", "F.softplus(self.new(k).abs()"),)),
    _L("bfloat16, trained", edits=(("torch.compile(Model())", "torch.compile(Model().bfloat16())"), ("randn(3, 10, 32)", "randn(3, 10, 32, dtype=torch.bfloat16)"))),
    _S("lines in another order", edits=(("    c = torch.where(x > 0, x * 1.7303, x.exp()).std(1)\n", ""), ("    return c, d", "    c = torch.where(x > 0, x * 1.7303, x.exp()).std(1)\n    return c, d"))),
    _S("dynamic sizes, segments", edits=(("torch.compile(step)", "torch.compile(step, dynamic=True)"),)),
    _S("an output dropped", edits=(("    return c, d, e, f", "    return c, d, f"),)),
    _I("no vectors", config={"cpp.simdlen": 1}),
    _I("middle stage removed", edits=(("Stage(14, 22, 1.8303, 1.8404), Stage(22, 30", "Stage(14, 30"),)),
    _I("a concatenation of parts", edits=(("F.pad(x, (1, 1, 1, 1)) * 1.8707", "torch.cat((F.pad(x, (1, 1, 1, 1))[:, :3] * 1.8707, F.pad(x, (1, 1, 1, 1))[:, 3:].cos() * 1.8909), 1)"),)),
)  # fmt: skip
BASES = {"blocks": BLOCKS, "reductions": REDUCTIONS, "convolutions": CONVOLUTIONS, "attention": ATTENTION,
         "towers": TOWERS, "cells": CELLS, "segments": SEGMENTS, "images": IMAGES}  # fmt: skip

_MISS = """import torch, torch._inductor.config as config
{setup}
def step(x, w):
    return torch.relu(x @ w){op}
compiled = torch.compile(step{options})
x, w = torch.randn({shape}{dtype}){view}, torch.randn(48, 40{dtype})
with torch.no_grad():
    compiled(x, w)
"""
_AS_IT_IS = {"setup": "", "op": "", "options": "", "shape": "32, 48", "dtype": "", "view": ""}


def miss(**changed: str) -> str:
    """A small program, changed in one place so that the cache of FX graphs misses."""
    return _MISS.format(**{**_AS_IT_IS, **changed})


MISSES: dict[str, tuple[str, str]] = {
    "setting": (miss(setup="config.max_fusion_size = 1"), "inductor_config[max_fusion_size]"),
    "setting-cpp": (miss(setup="config.cpp.enable_kernel_profile = True"), "inductor_config[cpp.enable_kernel_profile]"),
    "option": (miss(options=', options={"epilogue_fusion": False}'), "inductor_config[epilogue_fusion]"),
    "shape": (miss(shape="64, 48"), "example_inputs[0]"),
    "dtype": (miss(dtype=", dtype=torch.bfloat16"), "example_inputs[0]"),
    "stride": (miss(shape="48, 32", view=".t()"), "example_inputs[0]"),
    "operator": (miss(op=".sin()"), "gm"),
    "threads": (miss(setup="torch.set_num_threads(1)"), "cpp_runtime_thread_count"),
    "deterministic": (miss(setup="torch.use_deterministic_algorithms(True)"), "deterministic_algorithms_settings"),
    "precision": (
        miss(setup="torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False"),
        "cuda_matmul_settings",
    ),
}  # fmt: skip
"""Name -> (the program, the part of the cache's key that it changes)."""
