"""State-of-health monitor for battery cells from charge-curve windows.

A 1-Lipschitz network (orthogonal layers, MaxMin activations) so that sensor error
bounds carry over to the predicted capacity.  Trained briefly, then served on small
groups of cells as the charger reports them.
"""

import time
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

torch.set_num_threads(2)

WIDTH = 192
DEPTH = 5
POINTS = 96


class Health(NamedTuple):
    capacity: torch.Tensor
    margin: torch.Tensor


class MaxMin(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((torch.maximum(a, b), torch.minimum(a, b)), dim=-1)


def ortho_linear(width):
    return orthogonal(nn.Linear(width, width), orthogonal_map="cayley")


class CurveStem(nn.Module):
    """Voltage and current windows to a feature vector with bounded gain."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(2, 12, 9, stride=4, padding=4)
        self.proj = nn.Linear(12 * (POINTS // 4), width)

    def forward(self, curve):
        z = F.elu(self.conv(curve)).flatten(1)
        return F.layer_norm(self.proj(z), (self.proj.out_features,))


class HealthNet(nn.Module):
    def __init__(self, width=WIDTH, depth=DEPTH):
        super().__init__()
        self.stem = CurveStem(width)
        self.body = nn.ModuleList(ortho_linear(width) for _ in range(depth))
        self.act = MaxMin()
        self.head = nn.Linear(width, 1)
        self.log_err = nn.Parameter(torch.zeros(()))

    def forward(self, curve, sensor_err):
        z = self.stem(curve)
        for layer in self.body:
            z = self.act(layer(z))
        w = F.normalize(self.head.weight, dim=1)
        cap = 0.82 + 0.1 * F.linear(z, w, self.head.bias).squeeze(-1)
        return Health(cap, 0.1 * self.log_err.exp() * sensor_err)


def make_cells(n, seed):
    """Synthetic charge curves: ageing shifts the plateau and raises resistance."""
    g = torch.Generator().manual_seed(seed)
    cap = 0.65 + 0.35 * torch.rand(n, generator=g)
    s = torch.linspace(0, 1, POINTS)
    resist = 0.35 * (1 - cap) + 0.02 * torch.randn(n, generator=g)
    knee = 0.15 + 0.4 * (1 - cap)
    volt = 3.3 + 0.5 * torch.sigmoid((s - knee[:, None]) * 14) + resist[:, None] * (1 - s)
    cur = torch.exp(-((s - cap[:, None]).clamp_min(0) * 8))
    x = torch.stack((volt - 3.6, cur), 1) + 0.01 * torch.randn(n, 2, POINTS, generator=g)
    return x, cap


def train(model, steps=60):
    x, cap = make_cells(1024, seed=1)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    g = torch.Generator().manual_seed(2)
    for _ in range(steps):
        idx = torch.randint(0, len(x), (128,), generator=g)
        out = model(x[idx], torch.full((128,), 0.01))
        loss = F.mse_loss(out.capacity, cap[idx]) * 100
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


class Monitor:
    def __init__(self, model):
        self.model = torch.compile(model.eval())
        self.alarms = 0

    @torch.no_grad()
    def report(self, curves, err):
        health = self.model(curves, err)
        low = health.capacity - health.margin < 0.7
        self.alarms += int(low.sum())
        return health.capacity


def main():
    torch.manual_seed(0)
    model = HealthNet()
    loss = train(model)
    q = model.body[0].weight.detach()
    assert (q @ q.T - torch.eye(WIDTH)).abs().max() < 1e-3

    group, groups = 16, 60
    monitor = Monitor(model)
    x, cap = make_cells(group * groups, seed=7)
    err = torch.full((group,), 0.01)
    for _ in range(4):
        monitor.report(x[:group], err)
    monitor.alarms = 0

    preds = []
    t0 = time.perf_counter()
    for chunk in x.split(group):
        preds.append(monitor.report(chunk, err))
    spent = time.perf_counter() - t0
    rmse = (torch.cat(preds) - cap).pow(2).mean().sqrt().item()
    print(f"train loss {loss:.3f}, rmse {rmse:.4f}, alarms {monitor.alarms}")
    assert rmse < 0.08
    print(f"time per group: {1e3 * spent / groups:.2f} ms")


if __name__ == "__main__":
    main()
