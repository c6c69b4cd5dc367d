"""Surrogate of a distillation column for the plant's optimiser.

A multilayer perceptron learns product purities and duties of a tray column
from its operating point (feed state and composition, reflux ratio, boil-up,
pressure, tray temperatures).  The training data stand in for rigorous tray
simulations: a smooth response with interactions and saturating purities.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn

FEATURES = 64  # operating point and 50-odd tray temperatures
TARGETS = 16  # purities, duties, key tray temperatures
WIDTH = 320
BATCH = 1536
STEPS = 25


def tray_simulations(n, seed=9):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, FEATURES, generator=g)
    # neighbouring trays have similar temperatures
    for _ in range(3):
        x[:, 1:] = 0.6 * x[:, 1:] + 0.4 * x[:, :-1]
    w1 = torch.randn(FEATURES, 80, generator=g) / FEATURES**0.5
    w2 = torch.randn(80, TARGETS, generator=g) / 80**0.5
    y = torch.tanh(2.0 * (x @ w1)) @ w2
    y = torch.cat([torch.sigmoid(3.0 * y[:, :6]), y[:, 6:]], 1)  # purities 0..1
    y = y + 0.01 * torch.randn(n, TARGETS, generator=g)
    return x, (y - y.mean(0)) / y.std(0)


class Surrogate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEATURES, WIDTH)
        self.mid = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, TARGETS)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        for layer in self.mid:
            h = h + F.gelu(layer(h))
        return self.out(self.norm(h))


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
        # purities matter more to the optimiser than duties
        weight = torch.ones(TARGETS)
        weight[:6] = 2.0
        self.weight = weight / weight.mean()
        self.objective = torch.compile(self._objective)

    def _objective(self, x, y):
        err = F.huber_loss(self.model(x), y, reduction="none", delta=1.0)
        return (err * self.weight).mean()

    def step(self, x, y):
        loss = self.objective(x, y)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        return loss.detach()


def main():
    torch.manual_seed(6)
    x, y = tray_simulations(30000)
    train = Trainer(Surrogate())
    g = torch.Generator().manual_seed(10)

    for step in range(STEPS + 2):
        rows = torch.randint(0, 26000, (BATCH,), generator=g)
        xb, yb = x[rows], y[rows]
        t0 = time.perf_counter()
        loss = train.step(xb, yb)
        ms = (time.perf_counter() - t0) * 1e3
        print(f"step {step:3d}  loss {loss.item():.4f}  {ms:8.2f} ms")

    with torch.no_grad():
        pred = train.model(x[26000:])
        r2 = 1.0 - (pred - y[26000:]).square().mean() / y[26000:].var()
    print(f"held-out R2 {r2.item():.4f}")


if __name__ == "__main__":
    main()
