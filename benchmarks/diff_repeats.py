"""More pairs as in diff_programs.py, of programs in which much is alike: steps of a loop, layers of one width,
experts, levels of a pyramid, tensors of an optimizer. Written before `diff` was run on any of them.

Of what is alike each has a constant of its own, as a schedule or a temperature is; what an edit takes away or
puts in is where a user would do so: a step more at the end of a loop, a layer less, another level.
"""

from __future__ import annotations

from functools import partial

from diff_programs import Pair

_HEAD = """import torch
import torch.nn.functional as F
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
"""

GRU = (
    _HEAD
    + """
class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gates, self.cand = torch.nn.Linear(24 + 40, 80), torch.nn.Linear(24 + 40, 40)
        self.out = torch.nn.Linear(40, 52)
    def step(self, x, h, warm, cool):
        z, r = torch.sigmoid(self.gates(torch.cat([x, h], -1)) * warm).chunk(2, -1)
        n = torch.tanh(self.cand(torch.cat([x, r * h], -1)) * cool)
        return (1 - z) * n + z * h
    def forward(self, xs):
        h, outs = xs.new_zeros(xs.shape[1], 40), []
        for t, (warm, cool) in enumerate(((1.0102, 1.0203), (1.0304, 1.0405), (1.0506, 1.0607), (1.0708, 1.0809))):
            h = self.step(xs[t], h, warm, cool)
            outs.append(h)
        return F.log_softmax(self.out(torch.stack(outs)) * 1.0901, -1)

model = torch.compile(Decoder().to(device))
xs = torch.randn(6, 12, 24, device=device)
for _ in range(2):
    model(xs).mean().backward()
"""
)

SAMPLER = (
    _HEAD
    + """
class Denoiser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.mid, self.out = torch.nn.Linear(34, 46), torch.nn.Linear(46, 46), torch.nn.Linear(46, 34)
    def forward(self, x):
        h = F.silu(self.inp(x))
        return self.out(h + F.silu(self.mid(h)))

def sample(net, x, noise):
    for i, (alpha, sigma) in enumerate(((1.1102, 0.1203), (1.1304, 0.1405), (1.1506, 0.1607))):
        eps = net(x)
        x = (x - eps * sigma) / alpha
        x = x + noise[i] * sigma
    return x.clamp(-1, 1) * 1.1708

net, compiled = Denoiser().to(device), torch.compile(sample)
x, noise = torch.randn(20, 34, device=device), torch.randn(5, 20, 34, device=device)
with torch.no_grad():
    for _ in range(2):
        compiled(net, x, noise)
"""
)

LAYERS = (
    _HEAD
    + """
class Layer(torch.nn.Module):
    def __init__(self, temperature, gain):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(32), torch.nn.LayerNorm(32)
        self.qkv, self.proj = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)
        self.temperature, self.gain = temperature, gain
    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.temperature, -1)
        x = x + self.proj(weights @ v)
        return x + self.down(F.gelu(self.up(self.norm2(x))) * self.gain)

class Encoder(torch.nn.Module):
    def __init__(self, layers=((0.2102, 1.2203), (0.2304, 1.2405), (0.2506, 1.2607))):
        super().__init__()
        self.embed = torch.nn.Embedding(60, 32)
        self.layers = torch.nn.ModuleList([Layer(*given) for given in layers])
        self.head = torch.nn.Linear(32, 60)
    def forward(self, tokens):
        x = self.embed(tokens) * 1.2708
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1) * 1.2809, tokens.flatten())

model = torch.compile(Encoder().to(device))
tokens = torch.randint(60, (3, 18), device=device)
for _ in range(2):
    model(tokens).backward()
"""
)

EXPERTS = (
    _HEAD
    + """
class Expert(torch.nn.Module):
    def __init__(self, hidden, scale):
        super().__init__()
        self.a, self.b = torch.nn.Linear(28, hidden), torch.nn.Linear(hidden, 28)
        self.scale = scale
    def forward(self, x):
        return self.b(F.gelu(self.a(x)) * self.scale)

class Mixture(torch.nn.Module):
    def __init__(self, experts=((44, 1.3102), (44, 1.3203), (44, 1.3304), (58, 1.3405))):
        super().__init__()
        self.gate = torch.nn.Linear(28, len(experts))
        self.experts = torch.nn.ModuleList([Expert(*given) for given in experts])
    def forward(self, x):
        weights = torch.softmax(self.gate(x) * 1.3506, -1)
        y = sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        return F.layer_norm(x + y, (28,)) * 1.3607

model = torch.compile(Mixture().to(device))
x = torch.randn(22, 28, device=device)
for _ in range(2):
    model(x).square().mean().backward()
"""
)

RUNGE = (
    _HEAD
    + """
def field(y, w, s):
    return torch.tanh(y @ w) * s - y

def integrate(y, w):
    for h, s in ((0.1402, 1.1503), (0.1604, 1.1705), (0.1806, 1.1907)):
        k1 = field(y, w, s)
        k2 = field(y + k1 * (h / 2), w, s)
        k3 = field(y + k2 * (h / 2), w, s)
        k4 = field(y + k3 * h, w, s)
        y = y + (k1 + 2 * k2 + 2 * k3 + k4) * (h / 6)
    return y.norm(dim=-1) * 1.1008

compiled = torch.compile(integrate)
y, w = torch.randn(30, 26, device=device), torch.randn(26, 26, device=device, requires_grad=True)
for _ in range(2):
    compiled(y, w).sum().backward()
"""
)

MESSAGES = (
    _HEAD
    + """
class Round(torch.nn.Module):
    def __init__(self, scale, mix):
        super().__init__()
        self.message, self.update = torch.nn.Linear(36, 36), torch.nn.Linear(36, 36)
        self.scale, self.mix = scale, mix
    def forward(self, h, source, target):
        m = F.elu(self.message(h)[source] * self.scale)
        gathered = torch.zeros_like(h).index_add(0, target, m)
        return torch.relu(self.update(gathered) + h) * self.mix

class Net(torch.nn.Module):
    def __init__(self, rounds=((1.4102, 1.4203), (1.4304, 1.4405), (1.4506, 1.4607))):
        super().__init__()
        self.rounds = torch.nn.ModuleList([Round(*given) for given in rounds])
        self.read = torch.nn.Linear(36, 50)
    def forward(self, h, source, target, graph):
        for layer in self.rounds:
            h = layer(h, source, target)
        pooled = h.new_zeros(5, 36).index_add(0, graph, h) * 1.4708
        return torch.sigmoid(self.read(pooled)) * 1.4809

net = torch.compile(Net().to(device))
h, graph = torch.randn(40, 36, device=device), torch.randint(5, (40,), device=device)
source, target = torch.randint(40, (90,), device=device), torch.randint(40, (90,), device=device)
with torch.no_grad():
    for _ in range(2):
        net(h, source, target, graph)
"""
)

PYRAMID = (
    _HEAD
    + """
class Pyramid(torch.nn.Module):
    def __init__(self, widths=(6, 10, 14), scales=(1.5102, 1.5203, 1.5304)):
        super().__init__()
        ins = (3, *widths[:-1])
        self.down = torch.nn.ModuleList([torch.nn.Conv2d(i, o, 3, padding=1) for i, o in zip(ins, widths)])
        self.side = torch.nn.ModuleList([torch.nn.Conv2d(o, 18, 1) for o in widths])
        self.scales = scales
    def forward(self, x):
        levels = []
        for conv, side, scale in zip(self.down, self.side, self.scales):
            x = F.leaky_relu(conv(x) * scale)
            levels.append(side(x))
            x = F.avg_pool2d(x, 2)
        top = levels[-1]
        for level, fade in zip(levels[-2::-1], (0.5405, 0.5506, 0.5607)):
            top = level + F.interpolate(top, scale_factor=2, mode="nearest") * fade
        return top.tanh() * 1.5708

model = torch.compile(Pyramid().to(device))
x = torch.randn(2, 3, 16, 16, device=device)
for _ in range(2):
    model(x).square().mean().backward()
"""
)

OPTIMIZER = (
    _HEAD
    + """
def update(params, grads, moments):
    rates = (1.6102, 1.6203, 1.6304, 1.6405, 1.6506)
    out = []
    for p, g, m, rate in zip(params, grads, moments, rates):
        m = m * 0.9 + g * 0.1
        norm = p.square().sum().sqrt() / (m.square().sum().sqrt() + 1e-6)
        out.append(p - m * norm * rate)
    total = torch.stack([o.abs().amax() for o in out]).amax() * 1.6607
    return out, total

compiled = torch.compile(update)
sizes = ((20, 30), (30,), (20, 30), (30, 16), (20, 30))
params, grads, moments = ([torch.randn(s, device=device) for s in sizes] for _ in range(3))
for _ in range(2):
    compiled(params, grads, moments)
"""
)

LSTM = (
    _HEAD
    + """
class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = torch.nn.ModuleList([torch.nn.Linear(21 + 33, 4 * 33), torch.nn.Linear(33 + 33, 4 * 33)])
        self.read = torch.nn.Linear(33, 51)
    def forward(self, xs):
        state = [(xs.new_zeros(xs.shape[1], 33), xs.new_zeros(xs.shape[1], 33)) for _ in self.cells]
        for t, scales in enumerate(((1.7102, 1.7203), (1.7304, 1.7405), (1.7506, 1.7607))):
            x = xs[t]
            for layer, (cell, scale) in enumerate(zip(self.cells, scales)):
                h, c = state[layer]
                i, f, g, o = cell(torch.cat([x, h], -1)).chunk(4, -1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g) * scale
                x = torch.sigmoid(o) * torch.tanh(c)
                state[layer] = x, c
        return F.softplus(self.read(x) * 1.7708)

model = torch.compile(Stack().to(device))
xs = torch.randn(4, 10, 21, device=device)
with torch.no_grad():
    for _ in range(2):
        model(xs)
"""
)

SINKHORN = (
    _HEAD
    + """
def plan(a, b, x, y):
    cost = torch.cdist(x, y).square() * 1.8102
    u, v = torch.zeros_like(a), torch.zeros_like(b)
    for eps in (0.8203, 0.8304, 0.8405, 0.8506):
        u = eps * (torch.log(a) - torch.logsumexp((v[None, :] - cost) / eps, 1))
        v = eps * (torch.log(b) - torch.logsumexp((u[:, None] - cost) / eps, 0))
    return (torch.exp(u[:, None] + v[None, :] - cost) * cost).sum() * 1.8607

compiled = torch.compile(plan)
a, b = torch.full((25,), 0.04, device=device), torch.full((31,), 1 / 31, device=device)
x, y = torch.randn(25, 3, device=device), torch.randn(31, 3, device=device)
for _ in range(2):
    compiled(a, b, x, y)
"""
)

RESIDUAL = (
    _HEAD
    + """
class Unit(torch.nn.Module):
    def __init__(self, width, inner, slope, gain):
        super().__init__()
        self.a, self.b = torch.nn.Conv1d(width, inner, 3, padding=1), torch.nn.Conv1d(inner, width, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(inner)
        self.slope, self.gain = slope, gain
    def forward(self, x):
        y = F.elu(self.norm(self.a(x)) * self.slope)
        return torch.relu(x + self.b(y) * self.gain)

class Net(torch.nn.Module):
    def __init__(self, units=((13, 1.9102, 1.9203), (13, 1.9304, 1.9405), (17, 1.9506, 1.9607))):
        super().__init__()
        self.stem = torch.nn.Conv1d(2, 11, 5, padding=2)
        self.units = torch.nn.Sequential(*[Unit(11, *given) for given in units])
        self.head = torch.nn.Linear(11, 19)
    def forward(self, x):
        return self.head(self.units(self.stem(x) * 1.9708).amax(-1)) * 1.9809

net = torch.compile(Net().to(device))
x = torch.randn(5, 2, 64, device=device)
for _ in range(2):
    net(x).square().mean().backward()
"""
)

TWINS = (
    _HEAD
    + """
class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(29, 47), torch.nn.Linear(47, 35)
    def forward(self, x, s, t):
        return F.normalize(self.b(torch.tanh(self.a(x) * s)) * t, dim=-1)

def loss(net, left, right):
    p, q = net(left, 1.0102, 1.0203), net(right, 1.0304, 1.0405)
    scores = p @ q.t() / 0.1506
    one, two = scores.log_softmax(0).diagonal(), scores.log_softmax(1).diagonal()
    return -(one * 1.0607 + two * 1.0708).mean()

net, compiled = Encoder().to(device), torch.compile(loss)
left, right = torch.randn(15, 29, device=device), torch.randn(15, 29, device=device)
for _ in range(2):
    compiled(net, left, right).backward()
"""
)

_G = partial(Pair, program=GRU, base="gru", widths=(40, 52, 64, 80))
_D = partial(Pair, program=SAMPLER, base="sampler", widths=(34, 46))
_N = partial(Pair, program=LAYERS, base="layers", widths=(96, 60))
_E = partial(Pair, program=EXPERTS, base="experts", widths=(44, 58, 28))
_K = partial(Pair, program=RUNGE, base="runge")
_M = partial(Pair, program=MESSAGES, base="messages", widths=(36, 50))
_P = partial(Pair, program=PYRAMID, base="pyramid", widths=(6, 10, 14, 18))
_O = partial(Pair, program=OPTIMIZER, base="optimizer")
_Y = partial(Pair, program=LSTM, base="lstm", widths=(51,))
_H = partial(Pair, program=SINKHORN, base="sinkhorn")
_Q = partial(Pair, program=RESIDUAL, base="residual", widths=(13, 17, 19, 23))
_W = partial(Pair, program=TWINS, base="twins", widths=(47, 35))

PAIRS = (
    _G("gru, a step more", edits=((", (1.0708, 1.0809))):", ", (1.0708, 1.0809), (1.0103, 1.0204))):"),)),
    _G("gru, two steps fewer", edits=((", (1.0506, 1.0607), (1.0708, 1.0809))):", ")):"),)),
    _G("gru, another activation", edits=(("torch.tanh(self.cand", "F.softsign(self.cand"),)),
    _D("sampler, a step fewer", edits=((", (1.1506, 0.1607))", ")"),)),
    _D("sampler, a step more", edits=((", (1.1506, 0.1607))", ", (1.1506, 0.1607), (1.1103, 0.1204))"),)),
    _D("sampler, norm in the net", edits=(("return self.out(h + ", "return self.out(F.rms_norm(h, (46,)) + "),)),
    _N("layers, a layer more", edits=((", (0.2506, 1.2607))", ", (0.2506, 1.2607), (0.2103, 1.2204))"),)),
    _N("layers, last removed", edits=((", (0.2506, 1.2607))", ")"),)),
    _N("layers, bfloat16", edits=(("Encoder().to(device)", "Encoder().to(device).bfloat16()"),)),
    _N("layers, a break between", edits=(("            x = layer(x)\n", "            x = layer(x)\n            torch._dynamo.graph_break()\n"),)),
    _E("experts, the wide one removed", edits=((", (58, 1.3405))", ")"),)),
    _E("experts, gate by sigmoid", edits=(("torch.softmax(self.gate(x) * 1.3506, -1)", "torch.sigmoid(self.gate(x) * 1.3506)"),)),
    _E("experts, nothing fuses", config={"max_fusion_size": 1}),
    _K("runge, a step more", edits=((", (0.1806, 1.1907)):", ", (0.1806, 1.1907), (0.1403, 1.1504)):"),)),
    _K("runge, another field", edits=(("torch.tanh(y @ w) * s - y", "torch.sin(y @ w) * s - y"),)),
    _M("messages, a round fewer", edits=((", (1.4506, 1.4607))", ")"),)),
    _M("messages, dynamic sizes", edits=(("torch.compile(Net().to(device))", "torch.compile(Net().to(device), dynamic=True)"),)),
    _M("messages, trained", edits=(("with torch.no_grad():\n    for _ in range(2):\n        net(h, source, target, graph)", "for _ in range(2):\n    net(h, source, target, graph).sum().backward()"),)),
    _P("pyramid, a level fewer", edits=(("widths=(6, 10, 14), scales=(1.5102, 1.5203, 1.5304)", "widths=(6, 10), scales=(1.5102, 1.5203)"),)),
    _P("pyramid, larger images", edits=(("16, 16,", "32, 32,"),)),
    _P("pyramid, nothing fuses", config={"max_fusion_size": 1}),
    _O("optimizer, one tensor fewer", edits=((", (30, 16), (20, 30))", ", (20, 30))"), ("1.6405, 1.6506", "1.6506"))),
    _O("optimizer, no norm of weights", edits=(("p.square().sum().sqrt() / (m", "1.0 / (m"),)),
    _Y("lstm, a step more", edits=((", (1.7506, 1.7607))):", ", (1.7506, 1.7607), (1.7103, 1.7204))):"),)),
    _Y("lstm, a step fewer", edits=((", (1.7506, 1.7607))):", ")):"),)),
    _Y("lstm, forget gate biased", edits=(("torch.sigmoid(f) * c", "torch.sigmoid(f + 1) * c"),)),
    _Y("lstm, trained", edits=(("with torch.no_grad():\n    for _ in range(2):\n        model(xs)", "for _ in range(2):\n    model(xs).mean().backward()"),)),
    _H("sinkhorn, an iteration fewer", edits=((", 0.8506):", "):"),)),
    _H("sinkhorn, absolute cost", edits=(("torch.cdist(x, y).square()", "torch.cdist(x, y)"),)),
    _Q("residual, a unit more", edits=((", (17, 1.9506, 1.9607))", ", (17, 1.9506, 1.9607), (23, 1.9103, 1.9204))"),)),
    _Q("residual, the widest removed", edits=((", (17, 1.9506, 1.9607))", ")"),)),
    _Q("residual, another activation", edits=(("F.elu(", "F.silu("),)),
    _W("twins, one side dropped out", edits=(("net(right, 1.0304, 1.0405)", "F.dropout(net(right, 1.0304, 1.0405), 0.1)"),)),
    _W("twins, one direction", edits=(("one * 1.0607 + two * 1.0708", "one * 1.0607"),)),
    _W("twins, float64", edits=(("Encoder().to(device)", "Encoder().to(device).double()"), ("29, device=device), torch.randn(15, 29, device=device)", "29, device=device).double(), torch.randn(15, 29, device=device).double()"))),
)  # fmt: skip
BASES = {"gru": GRU, "sampler": SAMPLER, "layers": LAYERS, "experts": EXPERTS, "runge": RUNGE, "messages": MESSAGES,
         "pyramid": PYRAMID, "optimizer": OPTIMIZER, "lstm": LSTM, "sinkhorn": SINKHORN,
         "residual": RESIDUAL, "twins": TWINS}  # fmt: skip
