"""Calibrate an item bank with a four-parameter logistic IRT model.

Booklet design: each pupil sees only part of the items (mask).  Joint MAP
estimation with Adam: abilities of the pupils, discrimination, difficulty,
guessing and slipping of the items, all at once.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PUPILS = 3000
ITEMS = 320
STEPS = 150


def simulate_exam(seed=0):
    g = torch.Generator().manual_seed(seed)
    theta = torch.randn(PUPILS, generator=g)
    a = torch.exp(0.3 * torch.randn(ITEMS, generator=g))
    b = 1.1 * torch.randn(ITEMS, generator=g)
    c = 0.10 + 0.15 * torch.rand(ITEMS, generator=g)
    d = 0.92 + 0.07 * torch.rand(ITEMS, generator=g)
    p = c + (d - c) * torch.sigmoid(a * (theta[:, None] - b))
    answers = (torch.rand(PUPILS, ITEMS, generator=g) < p).float()
    # 8 blocks of items, booklets of 5 consecutive blocks
    block = torch.arange(ITEMS) // (ITEMS // 8)
    booklet = torch.randint(0, 8, (PUPILS,), generator=g)
    seen = ((block[None] - booklet[:, None]) % 8) < 5
    # some pupils run out of time
    stop = torch.rand(PUPILS, 1, generator=g) * 1.8
    seen &= (torch.arange(ITEMS)[None] / ITEMS) < stop.clamp(min=0.4)
    return dict(theta=theta, a=a, b=b, c=c, d=d), answers, seen.float()


class FourPL(nn.Module):
    def __init__(self, pupils, items):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(pupils, 1))
        self.log_a = nn.Parameter(torch.zeros(items))
        self.b = nn.Parameter(torch.zeros(items))
        self.c_raw = nn.Parameter(torch.full((items,), -1.5))
        self.d_raw = nn.Parameter(torch.full((items,), 2.5))

    def items(self):
        c = 0.5 * torch.sigmoid(self.c_raw)
        d = 0.5 + 0.5 * torch.sigmoid(self.d_raw)
        return self.log_a.exp(), self.b, c, d

    def forward(self, answers, seen):
        a, b, c, d = self.items()
        z = 1.702 * a * (self.theta - b)
        p = c + (d - c) * torch.sigmoid(z)
        p = p.clamp(1e-5, 1 - 1e-5)
        loglik = answers * torch.log(p) + (1 - answers) * torch.log1p(-p)
        # answers that fit badly (copying, lucky guesses) count less: Huber-like weights on the residual
        resid = (answers - p) / torch.sqrt(p * (1 - p))
        weight = 1.0 / (1.0 + F.relu(resid.abs() - 2.5) ** 2)
        nll = -(loglik * seen * weight.detach()).sum() / seen.sum()
        return nll + self.prior() / seen.sum()

    def prior(self):
        return (
            0.5 * (self.theta**2).sum()
            + 0.5 * (self.log_a / 0.4).pow(2).sum()
            + 0.5 * (self.b / 1.5).pow(2).sum()
            + 0.5 * (self.c_raw + 1.0).pow(2).sum()
            + 0.5 * (self.d_raw - 2.0).pow(2).sum()
        )


@torch.no_grad()
def item_fit(model, answers, seen, groups=10):
    """Observed minus expected share of right answers in ability groups (a table per item)."""
    a, b, c, d = model.items()
    order = model.theta[:, 0].argsort()
    worst = torch.zeros(ITEMS)
    for rows in order.chunk(groups):
        p = c + (d - c) * torch.sigmoid(1.702 * a * (model.theta[rows] - b))
        n = seen[rows].sum(0).clamp(min=1)
        gap = ((answers[rows] - p) * seen[rows]).sum(0) / n
        worst = torch.maximum(worst, gap.abs())
    return worst


def correlation(x, y):
    return float(torch.corrcoef(torch.stack([x.detach().flatten(), y.flatten()]))[0, 1])


def main():
    torch.manual_seed(1)
    truth, answers, seen = simulate_exam()
    model = FourPL(PUPILS, ITEMS)
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.05, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    t0 = time.perf_counter()
    for step in range(1, STEPS + 1):
        opt.zero_grad(set_to_none=True)
        loss = compiled(answers, seen)
        loss.backward()
        opt.step()
        sched.step()
        if step % 30 == 0:
            with torch.no_grad():
                r_theta = correlation(model.theta, truth["theta"])
                r_b = correlation(model.b, truth["b"])
            print(
                f"step {step:4d}  loss {loss.item():.4f}  r(theta) {r_theta:.3f}  r(b) {r_b:.3f}  "
                f"{1e3 * (time.perf_counter() - t0) / step:.1f} ms/step"
            )
    misfit = item_fit(model, answers, seen)
    bad = misfit.topk(5)
    print("worst items:", [(int(i), round(float(v), 3)) for v, i in zip(*bad)])
    assert correlation(model.theta, truth["theta"]) > 0.8


if __name__ == "__main__":
    main()
