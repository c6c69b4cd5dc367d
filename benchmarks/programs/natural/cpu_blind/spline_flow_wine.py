"""Neural spline flow (Durkan et al. 2019): density of synthetic wine chemistry with rational-quadratic couplings."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM, BINS, BOUND = 8, 8, 4.0
MIN_W = MIN_H = MIN_D = 1e-3
BATCH, STEPS = 2048, 60


def synth_wines(n, gen):
    kind = torch.randint(0, 4, (n,), generator=gen)
    centre = torch.randn(4, DIM, generator=gen)
    mix = torch.randn(4, DIM, DIM, generator=gen) * 0.35
    x = centre[kind] + torch.einsum("nd,nde->ne", torch.randn(n, DIM, generator=gen), mix[kind])
    x[:, 0] = x[:, 0] + 0.4 * x[:, 1] ** 2  # acidity bends with sugar
    x[:, 3] = torch.sin(1.5 * x[:, 2]) + 0.3 * x[:, 3]
    return (x - x.mean(0)) / x.std(0)


def knots(unnorm, minimum):
    sizes = minimum + (1 - minimum * BINS) * F.softmax(unnorm, dim=-1)
    cum = F.pad(torch.cumsum(sizes, dim=-1), (1, 0))
    cum = 2 * BOUND * cum - BOUND
    return cum, cum[..., 1:] - cum[..., :-1]


def rq_spline(x, uw, uh, ud, inverse=False):
    inside = (x > -BOUND) & (x < BOUND)
    xc = x.clamp(-BOUND, BOUND)
    cw, w = knots(uw, MIN_W)
    ch, h = knots(uh, MIN_H)
    edge = math.log(math.expm1(1 - MIN_D))
    d = MIN_D + F.softplus(F.pad(ud, (1, 1), value=edge))

    grid = ch if inverse else cw
    idx = (xc[..., None] >= grid[..., 1:-1]).sum(-1, keepdim=True)
    pick = lambda t: t.gather(-1, idx).squeeze(-1)
    x0, wk, y0, hk = pick(cw), pick(w), pick(ch), pick(h)
    dk, dk1 = pick(d), pick(d[..., 1:])
    s = hk / wk

    if inverse:
        dy = xc - y0
        t = dk + dk1 - 2 * s
        a = hk * (s - dk) + dy * t
        b = hk * dk - dy * t
        c = -s * dy
        root = 2 * c / (-b - (b * b - 4 * a * c).clamp(min=0).sqrt())
        out = root * wk + x0
        return torch.where(inside, out, x)

    th = (xc - x0) / wk
    th1 = th * (1 - th)
    den = s + (dk + dk1 - 2 * s) * th1
    out = y0 + hk * (s * th * th + dk * th1) / den
    grad = s * s * (dk1 * th * th + 2 * s * th1 + dk * (1 - th) ** 2)
    logdet = torch.log(grad) - 2 * torch.log(den)
    return torch.where(inside, out, x), torch.where(inside, logdet, torch.zeros_like(logdet))


class SplineCoupling(nn.Module):
    def __init__(self, perm, hidden=64):
        super().__init__()
        self.register_buffer("perm", perm)
        self.register_buffer("inv", torch.argsort(perm))
        half = DIM // 2
        self.net = nn.Sequential(
            nn.Linear(half, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, half * (3 * BINS - 1)),
        )
        nn.init.zeros_(self.net[-1].weight)

    def params(self, a):
        p = self.net(a).view(a.shape[0], DIM // 2, 3 * BINS - 1)
        return p.split([BINS, BINS, BINS - 1], dim=-1)

    def forward(self, x):
        a, b = x[:, self.perm].chunk(2, dim=1)
        b, logdet = rq_spline(b, *self.params(a))
        return torch.cat([a, b], dim=1)[:, self.inv], logdet.sum(-1)

    def invert(self, z):
        a, b = z[:, self.perm].chunk(2, dim=1)
        b = rq_spline(b, *self.params(a), inverse=True)
        return torch.cat([a, b], dim=1)[:, self.inv]


class SplineFlow(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        g = torch.Generator().manual_seed(9)
        self.layers = nn.ModuleList(SplineCoupling(torch.randperm(DIM, generator=g)) for _ in range(layers))

    def forward(self, x):
        total = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, ld = layer(x)
            total = total + ld
        base = -0.5 * (x * x).sum(-1) - 0.5 * DIM * math.log(2 * math.pi)
        return base + total

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, DIM)
        for layer in reversed(self.layers):
            z = layer.invert(z)
        return z


def main():
    torch.manual_seed(0)
    data = synth_wines(24000, torch.Generator().manual_seed(2))
    train, test = data[:20000], data[20000:]
    flow = SplineFlow()
    log_prob = torch.compile(flow)
    opt = torch.optim.AdamW(flow.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    for step in range(STEPS):
        x = train[torch.randint(0, len(train), (BATCH,))]
        loss = -log_prob(x).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        opt.step()
        sched.step()
        if step % 15 == 0:
            print(f"step {step:3d}  nll {loss.item():.4f}")
    with torch.no_grad():
        print(f"test nll {-flow(test).mean().item():.4f}")
    fake = flow.sample(4000)
    print(
        f"largest gap between correlations {(torch.corrcoef(fake.t()) - torch.corrcoef(test.t())).abs().max():.3f}"
    )


if __name__ == "__main__":
    main()
