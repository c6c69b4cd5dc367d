"""Neural additive model for 30-day hospital readmission.

One small network per clinical feature (ExU first layer as in Agarwal et al.),
the logit is the sum of the per-feature contributions, so every feature has a
shape function which can be shown to a clinician.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)

N_PATIENTS = 20000
N_FEATURES = 38
BATCH = 1024
EPOCHS = 4


def make_cohort(n, f):
    x = torch.rand(n, f) * 2 - 1
    logit = (
        1.4 * torch.sin(3 * x[:, 0])
        + 2.0 * (x[:, 1] > 0.3).float()
        - 1.5 * x[:, 2] ** 2
        + x[:, 3].clamp(min=0)
        + 0.8 * torch.exp(-10 * x[:, 4] ** 2)
        - 1.6
    )
    y = torch.bernoulli(torch.sigmoid(logit))
    return x, y


class ExU(nn.Module):
    """exp-centred units, one bank per feature; ReLU-n on top."""

    def __init__(self, n_feat, units):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_feat, units).normal_(2.5, 0.5))
        self.bias = nn.Parameter(torch.empty(n_feat, units).normal_(0, 0.5))

    def forward(self, x):  # (B, F) -> (F, B, U)
        xt = x.t().unsqueeze(-1)
        h = (xt - self.bias.unsqueeze(1)) * torch.exp(self.weight).unsqueeze(1)
        return torch.clamp(h, 0.0, 1.0)


class FeatureLinear(nn.Module):
    def __init__(self, n_feat, d_in, d_out):
        super().__init__()
        bound = 1 / math.sqrt(d_in)
        self.weight = nn.Parameter(torch.empty(n_feat, d_in, d_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_feat, 1, d_out))

    def forward(self, h):
        return torch.baddbmm(self.bias, h, self.weight)


class NAM(nn.Module):
    def __init__(self, n_feat, units=64, hidden=32):
        super().__init__()
        self.exu = ExU(n_feat, units)
        self.norm = nn.LayerNorm(units)
        self.fc1 = FeatureLinear(n_feat, units, hidden)
        self.fc2 = FeatureLinear(n_feat, hidden, hidden)
        self.out = nn.Parameter(torch.randn(n_feat, 1, hidden) * 0.1)
        self.bias = nn.Parameter(torch.zeros(()))

    def contributions(self, x):
        h = self.norm(self.exu(x))
        h = F.gelu(self.fc1(h))
        h = F.gelu(self.fc2(h)) + h
        return (h * self.out).sum(-1)  # (F, B)

    def forward(self, x):
        c = self.contributions(x)
        return c.sum(0) + self.bias, c


def loss_fn(logit, contrib, y, l2_out=1e-3, smoothing=0.02):
    y = y * (1 - smoothing) + 0.5 * smoothing
    bce = F.binary_cross_entropy_with_logits(logit, y)
    return bce + l2_out * contrib.pow(2).mean()


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = y.sum()
    neg = len(y) - pos
    return ((rank[y > 0.5].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main():
    x, y = make_cohort(N_PATIENTS, N_FEATURES)
    xv, yv = make_cohort(4096, N_FEATURES)
    model = NAM(N_FEATURES)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    net = torch.compile(model)

    for epoch in range(EPOCHS):
        perm = torch.randperm(N_PATIENTS)
        t0 = time.perf_counter()
        running = 0.0
        steps = N_PATIENTS // BATCH
        for i in range(steps):
            idx = perm[i * BATCH : (i + 1) * BATCH]
            logit, contrib = net(x[idx])
            loss = loss_fn(logit, contrib, y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.item()
        dt = time.perf_counter() - t0
        with torch.no_grad():
            score = torch.cat([model(b)[0] for b in xv.split(BATCH)])
        print(
            f"epoch {epoch}  loss {running / steps:.4f}  val auc {auc(score, yv):.4f}  "
            f"{dt / steps * 1e3:.1f} ms/step"
        )

    with torch.no_grad():
        grid = torch.linspace(-1, 1, 9).unsqueeze(1).expand(9, N_FEATURES).contiguous()
        shape = model.contributions(grid)
        shape = shape - shape.mean(1, keepdim=True)
        for f in range(5):
            print(f"feature {f}: " + " ".join(f"{v:+.2f}" for v in shape[f].tolist()))


if __name__ == "__main__":
    main()
