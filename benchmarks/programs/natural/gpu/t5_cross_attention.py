"""T5-style decoder layer with bucketed relative positions and cross attention."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def bucket(relative, buckets=32, max_distance=128):
    n = (-relative).clamp(min=0)
    exact = buckets // 2
    large = (
        exact
        + (
            torch.log(n.float().clamp(min=1) / exact) / math.log(max_distance / exact) * (buckets - exact)
        ).long()
    )
    return torch.where(n < exact, n, large.clamp(max=buckets - 1))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, memory, bias):
        b, t, d = x.shape
        q, k, v = (
            f(y).view(b, -1, self.heads, d // self.heads).transpose(1, 2)
            for f, y in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        scores = q @ k.transpose(-1, -2) + bias
        p = F.dropout(scores.float().softmax(-1).type_as(scores), 0.1, self.training)
        return self.o((p @ v).transpose(1, 2).reshape(b, t, d))


class DecoderLayer(nn.Module):
    def __init__(self, dim=512, heads=8):
        super().__init__()
        self.table = nn.Embedding(32, heads)
        self.own, self.cross = Attention(dim, heads), Attention(dim, heads)
        self.norms = nn.ModuleList([nn.RMSNorm(dim, eps=1e-6) for _ in range(3)])
        self.wi0, self.wi1, self.wo = (
            nn.Linear(dim, 1024, bias=False),
            nn.Linear(dim, 1024, bias=False),
            nn.Linear(1024, dim, bias=False),
        )

    def forward(self, x, memory, memory_mask):
        t = x.shape[1]
        pos = torch.arange(t, device=x.device)
        rel = pos[None] - pos[:, None]
        bias = self.table(bucket(rel)).permute(2, 0, 1)[None]
        bias = bias.masked_fill(rel > 0, torch.finfo(x.dtype).min)
        y = self.norms[0](x)
        x = x + self.own(y, y, bias)
        x = x + self.cross(self.norms[1](x), memory, memory_mask)
        y = self.norms[2](x)
        return x + self.wo(F.gelu(self.wi0(y), approximate="tanh") * self.wi1(y))


def build(device, compiled):
    torch.manual_seed(0)
    model = DecoderLayer().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    n, t, s = pick(16, 2), pick(256, 8), pick(512, 12)
    x, memory = torch.randn(n, t, 512, device=device), torch.randn(n, s, 512, device=device)
    keep = torch.arange(s, device=device)[None] < torch.randint(s // 2, s, (n, 1), device=device)
    mask = torch.where(keep, 0.0, -1e9)[:, None, None]
    target = torch.randn_like(x)

    def step():
        optimizer.zero_grad()
        loss = F.mse_loss(forward(x, memory, mask), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
