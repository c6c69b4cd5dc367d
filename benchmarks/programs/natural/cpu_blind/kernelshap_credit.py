"""Explanation service: KernelSHAP attributions for a credit-default network, one request at a time."""

import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

N_NUM, CATS = 14, (8, 5, 12, 4)
N_FEAT = N_NUM + len(CATS)


class DefaultNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(c, 6) for c in CATS)
        self.inp = nn.Linear(N_NUM + 6 * len(CATS), width)
        self.res = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.ln = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        num, cat = x[..., :N_NUM], x[..., N_NUM:].long()
        h = self.inp(torch.cat([num] + [e(cat[..., i]) for i, e in enumerate(self.emb)], -1))
        for lin, ln in zip(self.res, self.ln):
            h = h + F.relu(lin(ln(h)))
        return self.out(h).squeeze(-1)


def applicants(n, gen):
    num = torch.randn(n, N_NUM, generator=gen)
    num[:, 3] = num[:, 0] * 0.7 + num[:, 3] * 0.7
    cat = torch.stack([torch.randint(c, (n,), generator=gen) for c in CATS], 1)
    logit = (
        1.2 * num[:, 0]
        - 0.9 * num[:, 1] * (cat[:, 0] > 3)
        + 0.6 * num[:, 2].abs()
        + 0.5 * (cat[:, 2] % 3 - 1)
        - 0.8
    )
    y = (torch.rand(n, generator=gen) < torch.sigmoid(logit)).float()
    return torch.cat([num, cat.float()], 1), y


def fit(model, x, y, steps=250):
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        i = torch.randint(len(x), (512,))
        loss = F.binary_cross_entropy_with_logits(model(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@dataclass
class Explanation:
    base: torch.Tensor
    phi: torch.Tensor
    resid: torch.Tensor


class KernelShap:
    def __init__(self, model, background, n_coalitions=192):
        self.model = model
        self.bg = background
        self.m = n_coalitions
        sizes = torch.arange(1, N_FEAT)
        w = (N_FEAT - 1) / (sizes * (N_FEAT - sizes)).float()
        self.size_p = w / w.sum()
        with torch.no_grad():
            self.base = model(background).mean()

    def sample(self):
        """Paired coalitions: sizes drawn from the kernel, members by random ranks."""
        size = torch.multinomial(self.size_p, self.m // 2, replacement=True) + 1
        rank = torch.rand(self.m // 2, N_FEAT).argsort(-1).argsort(-1)
        z = rank < size[:, None]
        return torch.cat([z, ~z])

    def __call__(self, x):
        z = self.sample()
        # (request rows, coalitions, background rows, features)
        mixed = torch.where(z[None, :, None], x[:, None, None], self.bg[None, None])
        v = self.model(mixed).mean(-1) - self.base
        fx = self.model(x) - self.base
        # efficiency constraint: eliminate the last feature
        zd = z.double()
        a = zd[:, :-1] - zd[:, -1:]
        b = v.double() - fx.double()[:, None] * zd[:, -1]
        gram = a.T @ a + 1e-6 * torch.eye(N_FEAT - 1, dtype=torch.float64)
        chol = torch.linalg.cholesky(gram)
        part = torch.cholesky_solve(a.T @ b.T, chol).T
        phi = torch.cat([part, fx.double()[:, None] - part.sum(-1, keepdim=True)], -1)
        resid = (b - part @ a.T).square().mean(-1).sqrt()
        return Explanation(self.base, phi.float(), resid.float())


def main():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    x, y = applicants(6000, gen)
    model = DefaultNet()
    print(f"fitted, last loss {fit(model, x, y):.4f}")
    model.eval()

    explainer = KernelShap(model, x[torch.randperm(len(x), generator=gen)[:12]])
    explain = torch.compile(explainer.__call__)

    queue, _ = applicants(8 * 80, gen)
    importance = torch.zeros(N_FEAT)
    lat, worst = [], 0.0
    with torch.no_grad():
        for req in queue.split(8):
            t0 = time.perf_counter()
            e = explain(req)
            top = e.phi.abs().topk(3, -1)
            lat.append(time.perf_counter() - t0)
            importance += e.phi.abs().sum(0)
            worst = max(worst, e.resid.max().item())
            last = top
    importance /= len(queue)
    order = importance.argsort(descending=True)[:6].tolist()
    print("importance", [(f, round(importance[f].item(), 3)) for f in order])
    print("last request, top features", last.indices[0].tolist(), f"worst residual {worst:.3f}")
    print(
        f"latency ms: median {statistics.median(lat) * 1e3:.1f}  p95 {sorted(lat)[int(0.95 * len(lat))] * 1e3:.1f}"
    )


if __name__ == "__main__":
    main()
