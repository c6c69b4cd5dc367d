"""Multi-resolution hash encoding with trilinear weights and a tiny MLP, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class HashGrid(nn.Module):
    def __init__(self, levels=8, size=2**18, feats=2, base=16, growth=1.6):
        super().__init__()
        self.size = size
        self.tables = nn.Parameter((torch.rand(levels, size, feats) - 0.5) * 1e-3)
        self.res = [int(base * growth**i) for i in range(levels)]
        self.register_buffer("primes", torch.tensor([1, 2654435761, 805459861]))
        corners = torch.tensor([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
        self.register_buffer("corners", corners)

    def forward(self, x):
        out = []
        for level, res in enumerate(self.res):
            p = x * res
            low = p.floor()
            frac = p - low
            idx = low.long()[:, None] + self.corners
            h = idx * self.primes
            h = (h[..., 0] ^ h[..., 1] ^ h[..., 2]) % self.size
            w = torch.where(self.corners.bool(), frac[:, None], 1 - frac[:, None]).prod(-1)
            out.append((self.tables[level][h] * w[..., None]).sum(1))
        return torch.cat(out, -1)


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.grid = HashGrid(size=size)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.mlp(self.grid(x)).squeeze(-1)


def build(device, compiled):
    torch.manual_seed(0)
    model = Model(pick(2**18, 2**8)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-15)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.rand(pick(131072, 64), 3, device=device)
    target = (x - 0.5).norm(dim=-1) - 0.3

    def step():
        loss = F.l1_loss(forward(x), target)
        optimizer.zero_grad()
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
