"""Causal linear attention by a cumulative sum of outer products, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def causal_linear_attention(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
    z = k.cumsum(2)
    num = torch.einsum("bhtd,bhtde->bhte", q, kv)
    den = (q * z).sum(-1, keepdim=True) + 1e-6
    return num / den


class Block(nn.Module):
    def __init__(self, dim=256, heads=8):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = causal_linear_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))


def build(device, compiled):
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.LayerNorm(256), nn.Linear(256, 64)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(pick(8, 2), pick(512, 16), 256, device=device)
    y = torch.randint(64, x.shape[:2], device=device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x).flatten(0, 1), y.flatten())
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
