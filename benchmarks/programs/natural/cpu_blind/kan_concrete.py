# Compressive strength of concrete mixes with a Kolmogorov-Arnold network (B-spline edges).
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(42)

N_TRAIN, N_TEST, BATCH, EPOCHS = 8192, 2048, 512, 10


def make_mixes(n, gen):
    """cement, slag, ash, water, plasticizer, coarse, fine (kg/m3), age (days) -> strength (MPa)."""
    u = torch.rand(n, 8, generator=gen)
    lo = torch.tensor([100.0, 0, 0, 120, 0, 800, 590, 1])
    hi = torch.tensor([540.0, 360, 200, 250, 32, 1150, 1000, 365])
    x = lo + u * (hi - lo)
    x[:, 7] = torch.exp(u[:, 7] * math.log(365.0))
    binder = x[:, 0] + 0.75 * x[:, 1] + 0.45 * x[:, 2]
    w_c = x[:, 3] / binder
    hydration = 1 - torch.exp(-0.28 * x[:, 7].sqrt())
    y = 95.0 / 6.5**w_c * (0.25 + hydration) + 0.25 * x[:, 4] - 8e-5 * (x[:, 5] - 970) ** 2
    y = y + 3.0 * torch.sin(x[:, 6] / 60) + 1.0 * torch.randn(n, generator=gen)
    return x, y.clamp(min=2)


class SplineLayer(nn.Module):
    """Every edge is a SiLU plus a cubic B-spline on a fixed uniform grid."""

    def __init__(self, n_in, n_out, grid=6, order=3, span=(-2.0, 2.0)):
        super().__init__()
        self.order = order
        h = (span[1] - span[0]) / grid
        knots = torch.arange(-order, grid + order + 1) * h + span[0]
        self.register_buffer("knots", knots.expand(n_in, -1).contiguous())
        n_basis = grid + order
        self.base = nn.Parameter(torch.empty(n_out, n_in))
        self.coef = nn.Parameter(0.1 * torch.randn(n_out, n_in, n_basis) / math.sqrt(n_in))
        self.scale = nn.Parameter(torch.ones(n_out, n_in))
        nn.init.kaiming_uniform_(self.base, a=math.sqrt(5))

    def bases(self, x):
        x = x.unsqueeze(-1)
        g = self.knots
        b = ((x >= g[:, :-1]) & (x < g[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)]) * b[..., :-1]
            right = (g[:, k + 1 :] - x) / (g[:, k + 1 :] - g[:, 1:-k]) * b[..., 1:]
            b = left + right
        return b

    def forward(self, x):
        spline = F.linear(self.bases(x).flatten(1), (self.coef * self.scale.unsqueeze(-1)).flatten(1))
        return F.linear(F.silu(x), self.base) + spline

    def roughness(self):
        d2 = self.coef[..., 2:] - 2 * self.coef[..., 1:-1] + self.coef[..., :-2]
        return d2.pow(2).mean()


class KAN(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(SplineLayer(a, b) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(b) for b in widths[1:-1])

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < len(self.norms):
                x = self.norms[i](x)
        return x.squeeze(-1)

    def penalty(self):
        return sum(l.roughness() for l in self.layers)


gen = torch.Generator().manual_seed(9)
xtr, ytr = make_mixes(N_TRAIN, gen)
xte, yte = make_mixes(N_TEST, gen)
xtr[:, 7], xte[:, 7] = xtr[:, 7].log(), xte[:, 7].log()
mu, sd = xtr.mean(0), xtr.std(0)
ymu, ysd = ytr.mean(), ytr.std()
xtr, xte = (xtr - mu) / sd, (xte - mu) / sd
ztr = (ytr - ymu) / ysd

model = KAN([8, 96, 96, 1])
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * (N_TRAIN // BATCH))


@torch.compile
def objective(x, z):
    pred = model(x)
    return F.huber_loss(pred, z, delta=1.0) + 1e-3 * model.penalty()


@torch.compile
def predict(x):
    return model(x) * ysd + ymu


t_start = time.perf_counter()
step_ms = []
for epoch in range(EPOCHS):
    perm = torch.randperm(N_TRAIN)
    running = 0.0
    for i in range(0, N_TRAIN, BATCH):
        idx = perm[i : i + BATCH]
        t0 = time.perf_counter()
        loss = objective(xtr[idx], ztr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item()
        step_ms.append(1e3 * (time.perf_counter() - t0))
    with torch.no_grad():
        pred = torch.cat([predict(c) for c in xte.split(BATCH)])
    rmse = (pred - yte).pow(2).mean().sqrt().item()
    r2 = 1 - ((pred - yte).pow(2).sum() / (yte - yte.mean()).pow(2).sum()).item()
    print(
        f"epoch {epoch + 1}: train {running / (N_TRAIN // BATCH):.4f}  test RMSE {rmse:.2f} MPa  R2 {r2:.3f}"
    )

ms = torch.tensor(step_ms)
print(f"\nparameters        {sum(p.numel() for p in model.parameters()):>10}")
print(f"median step       {ms.median().item():>10.2f} ms")
print(f"slowest step      {ms.max().item():>10.2f} ms")
print(f"training + tests  {time.perf_counter() - t_start:>10.2f} s")
