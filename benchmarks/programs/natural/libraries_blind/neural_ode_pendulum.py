"""Fit a neural ODE to noisy trajectories of a damped pendulum with torchdiffeq's adaptive solver."""

import time

import torch
import torch.nn as nn
from torchdiffeq import odeint


class Pendulum(nn.Module):
    def forward(self, t, y):
        theta, omega = y[..., 0], y[..., 1]
        return torch.stack([omega, -0.15 * omega - 4.0 * torch.sin(theta)], dim=-1)


class ODEFunc(nn.Module):
    def __init__(self, dim=2, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim + 1, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, dim),
        )
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=0.15)
                nn.init.zeros_(m.bias)

    def forward(self, t, y):
        tt = t.to(y).expand(*y.shape[:-1], 1)
        return self.net(torch.cat([y, tt], dim=-1))


def make_data(n_traj, t):
    y0 = torch.rand(n_traj, 2) * torch.tensor([2.4, 2.0]) - torch.tensor([1.2, 1.0])
    with torch.no_grad():
        y = odeint(Pendulum(), y0, t, rtol=1e-6, atol=1e-8)
    return y


def get_batch(y, batch, length, generator):
    n_t, n_traj, _ = y.shape
    s = torch.randint(0, n_t - length, (batch,), generator=generator)
    j = torch.randint(0, n_traj, (batch,), generator=generator)
    return torch.stack([y[s + k, j] for k in range(length)])


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(3)
    t = torch.linspace(0.0, 8.0, 161)
    clean = make_data(16, t)
    data = clean + 0.01 * torch.randn(clean.shape, generator=g)

    func = ODEFunc()
    rhs = torch.compile(func)
    opt = torch.optim.RMSprop(func.parameters(), lr=2e-3)
    t_batch = t[:16]

    losses, times = [], []
    for it in range(90):
        target = get_batch(data, 64, 16, g)
        t0 = time.perf_counter()
        pred = odeint(rhs, target[0], t_batch, rtol=1e-4, atol=1e-5, method="dopri5")
        loss = (pred - target).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        if it >= 15:
            times.append(time.perf_counter() - t0)

    with torch.no_grad():
        roll = odeint(rhs, clean[0], t[:41], rtol=1e-4, atol=1e-5, method="dopri5")
    err = (roll - clean[:41]).abs().mean().item()

    first = sum(losses[:10]) / 10
    last = sum(losses[-10:]) / 10
    assert last < 0.7 * first, (first, last)
    times.sort()
    print(f"loss {first:.4f} -> {last:.4f}, rollout error {err:.4f}")
    print(
        f"median {1e3 * times[len(times) // 2]:.2f} ms, mean {1e3 * sum(times) / len(times):.2f} ms per step"
    )


if __name__ == "__main__":
    main()
