"""River stage forecasting with an ensemble of small networks.

Every member sees the same lagged inputs with its own bootstrap weights.  The
forward pass of the ensemble is compiled; training uses decoupled weight decay
Adam with per-tensor clipping, and a running average of weights for evaluation.
"""

import copy
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(4)

LAGS = 24
MEMBERS = 8


def make_series(n=9000, seed=8):
    rng = np.random.default_rng(seed)
    rain = rng.gamma(0.15, 4.0, n) * (rng.random(n) < 0.2)
    fast, slow, stage = 0.0, 0.0, np.empty(n)
    for i in range(n):
        fast = 0.82 * fast + rain[i]
        slow = 0.985 * slow + 0.15 * rain[i]
        stage[i] = 1.0 + 0.12 * fast**0.8 + 0.1 * slow
    stage += 0.02 * rng.standard_normal(n)
    feats = np.stack([rain / 5.0, stage - 1.5], 1).astype(np.float32)
    x = np.stack([feats[i : i + LAGS].ravel() for i in range(n - LAGS - 3)])
    y = (stage[LAGS + 2 : n - 1] - 1.5).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class Member(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.l1 = nn.Linear(2 * LAGS, width)
        self.n1 = nn.LayerNorm(width)
        self.l2 = nn.Linear(width, width)
        self.n2 = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        h = F.gelu(self.n1(self.l1(x)))
        h = h + F.gelu(self.n2(self.l2(h)))
        mu, raw = self.head(h).unbind(-1)
        return mu, F.softplus(raw) + 1e-2


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.members = nn.ModuleList(Member(24 + 2 * (i % 4)) for i in range(MEMBERS))

    def forward(self, x):
        mus, sds = zip(*(m(x) for m in self.members))
        return torch.stack(mus), torch.stack(sds)


class ClippedAdamW:
    def __init__(self, params, lr=2e-3, betas=(0.9, 0.99), wd=1e-3, clip=0.5):
        self.params = list(params)
        self.lr, self.betas, self.wd, self.clip = lr, betas, wd, clip
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        c1, c2 = 1 - b1**self.t, 1 - b2**self.t
        for p, m, v in zip(self.params, self.m, self.v):
            g = p.grad
            norm = g.norm()
            g = g * torch.clamp(self.clip / (norm + 1e-6), max=1.0)
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            update = (m / c1) / ((v / c2).sqrt() + 1e-8)
            p.mul_(1 - self.lr * self.wd).sub_(self.lr * update)
            p.grad = None


@torch.no_grad()
def update_average(avg, model, decay=0.98):
    for a, p in zip(avg.parameters(), model.parameters()):
        a.mul_(decay).add_(p, alpha=1 - decay)


def main():
    x, y = make_series()
    n_train = 7000
    model = Ensemble()
    avg = copy.deepcopy(model)
    forward = torch.compile(model)
    opt = ClippedAdamW(model.parameters())
    gen = torch.Generator().manual_seed(1)

    def train_step():
        idx = torch.randint(0, n_train, (64,), generator=gen)
        boot = torch.empty(MEMBERS, 64).exponential_(generator=gen)
        mu, sd = forward(x[idx])
        err = (y[idx] - mu) / sd
        loss = (boot * (0.5 * err.square() + sd.log())).mean(1).sum()
        loss.backward()
        opt.step()
        update_average(avg, model)
        return loss.detach()

    for _ in range(5):
        train_step()
    losses, times = [], []
    for _ in range(100):
        t0 = time.perf_counter()
        losses.append(train_step())
        times.append(time.perf_counter() - t0)

    with torch.no_grad():
        mu, _ = avg(x[n_train:])
        rmse = float((mu.mean(0) - y[n_train:]).square().mean().sqrt())
    base = float(y[n_train:].std())
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}, rmse {rmse:.3f} (std {base:.3f})")
    assert rmse < 0.85 * base
    print(f"{1e3 * np.median(times):.2f} ms per step")


if __name__ == "__main__":
    main()
