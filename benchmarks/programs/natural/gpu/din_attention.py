"""Behaviour-sequence attention towards a candidate item (DIN), batch scoring."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Dice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        p = torch.sigmoid(self.bn(x.flatten(0, -2)).view_as(x))
        return p * x + (1 - p) * self.alpha * x


class DIN(nn.Module):
    def __init__(self, items=500_000, dim=32):
        super().__init__()
        self.embed = nn.Embedding(items, dim)
        self.att1, self.act, self.att2 = nn.Linear(4 * dim, 64), Dice(64), nn.Linear(64, 1)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, 200), nn.PReLU(), nn.Linear(200, 80), nn.PReLU(), nn.Linear(80, 1)
        )

    def forward(self, history, lengths, candidate):
        h = self.embed(history)
        c = self.embed(candidate)[:, None].expand_as(h)
        a = self.att2(self.act(self.att1(torch.cat([c, h, c - h, c * h], -1)))).squeeze(-1)
        mask = torch.arange(h.shape[1], device=h.device)[None] < lengths[:, None]
        a = a.masked_fill(~mask, 0.0)
        interest = torch.einsum("bl,bld->bd", a, h)
        return torch.sigmoid(self.mlp(torch.cat([interest, c[:, 0]], -1))).squeeze(-1)


def build(device, compiled):
    torch.manual_seed(0)
    items, batch = pick(500_000, 500), pick(4096, 8)
    model = DIN(items).to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    history = torch.randint(items, (batch, 100), device=device)
    lengths = torch.randint(1, 101, (batch,), device=device)
    candidate = torch.randint(items, (batch,), device=device)

    @torch.no_grad()
    def step():
        return model(history, lengths, candidate)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
