"""Steady calls of one model, with a cost that no kernel shows: `python planted.py MODEL PLANT`.

`hook` sleeps 3 ms in the forward hook of an inner module, `copy` copies 32 MB with NumPy outside the graphs,
both inside the compiled call; with any other PLANT nothing is added. Prints what the plant took in a call.
"""

import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CALLS = 30
DATA = np.ones(4 << 20)
spent = []


@torch.compiler.disable
def pause():
    start = time.perf_counter()
    time.sleep(0.003)
    spent.append(time.perf_counter() - start)


@torch.compiler.disable
def copied():
    start = time.perf_counter()
    DATA.copy()
    spent.append(time.perf_counter() - start)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.attention(x)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Cells(nn.Module):
    def __init__(self, width, steps):
        super().__init__()
        self.steps = steps
        self.inner, self.forget = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for step in range(self.steps):
            both = torch.cat([x[:, step], h], 1)
            gate = torch.sigmoid(self.forget(both))
            h = gate * h + (1 - gate) * torch.tanh(self.inner(both))
        return h


class Breaks(nn.Module):
    """Two decisions by a value, which Dynamo can't trace."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        x = torch.relu(self.first(x))
        if x.mean().item() > 1e6:
            x = x * 2
        x = torch.relu(self.second(x)) + x
        if x.mean().item() > 1e6:
            x = x * 2
        return self.third(x)


def transformer():
    model = nn.Sequential(Layer(256, 4))
    return model, model[0].norm, torch.randn(8, 128, 256), True


def conv():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1),
    ).eval()  # fmt: skip
    return model, model[2], torch.randn(8, 3, 64, 64), False


def rnn():
    model = Cells(512, 8).eval()
    return model, model.inner, torch.randn(64, 8, 512), False


def breaks():
    model = Breaks(1024).eval()
    return model, model.second, torch.randn(256, 1024), False


class Step(nn.Module):
    def __init__(self, model, plant):
        super().__init__()
        self.model, self.plant = model, plant

    def forward(self, x):
        if self.plant == "copy":
            copied()
        return self.model(x)


if __name__ == "__main__":
    name, plant = sys.argv[1:3]
    torch.manual_seed(0)
    model, inner, x, train = {"transformer": transformer, "conv": conv, "rnn": rnn, "breaks": breaks}[name]()
    if plant == "hook":
        inner.register_forward_hook(lambda module, given, result: pause())
    compiled = torch.compile(Step(model, plant))
    with torch.set_grad_enabled(train):
        for _ in range(CALLS):
            y = compiled(x)
            if train:
                y.square().mean().backward()
    print("planted", statistics.median(spent or [0.0]) * 1e3, "ms")
