"""Prefill with ALiBi biases, grouped-query attention written out by hand."""

import math
import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Attention(nn.Module):
    def __init__(self, dim=1024, heads=16, groups=4):
        super().__init__()
        self.heads, self.groups, self.hd = heads, groups, dim // heads
        self.q, self.kv, self.o = (
            nn.Linear(dim, dim, bias=False),
            nn.Linear(dim, 2 * groups * self.hd, bias=False),
            nn.Linear(dim, dim, bias=False),
        )
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))

    def forward(self, x):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.groups, self.heads // self.groups, self.hd).permute(0, 2, 3, 1, 4)
        k, v = self.kv(x).view(b, t, 2, self.groups, self.hd).permute(2, 0, 3, 1, 4)
        scores = torch.einsum("bghqd,bgkd->bghqk", q, k) / math.sqrt(self.hd)
        pos = torch.arange(t, device=x.device)
        bias = -(pos[:, None] - pos[None]).abs() * self.slopes.view(self.groups, -1, 1, 1)
        scores = scores + bias.to(scores.dtype)
        scores = scores.masked_fill(pos[None] > pos[:, None], float("-inf"))
        p = scores.float().softmax(-1).to(x.dtype)
        y = torch.einsum("bghqk,bgkd->bqghd", p, v)
        return self.o(y.reshape(b, t, d))


class Stack(nn.Module):
    def __init__(self, dim=1024, depth=2):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.layers = nn.ModuleList([Attention(dim) for _ in range(depth)])

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


def build(device, compiled):
    torch.manual_seed(0)
    model = Stack().to(device, torch.bfloat16).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(pick(4, 1), pick(1024, 16), 1024, device=device, dtype=torch.bfloat16)

    @torch.no_grad()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
