"""Anomaly scores of login sessions for the tenants of a managed security service.

One denoising autoencoder is shared; every tenant has its own baseline (means, scales, feature weights, alert
threshold).  Batches of sessions arrive per tenant; the answer holds the score, the alert flag and the features that
explain it most.
"""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

FEATURES = 160
BATCH = 2048
REQUESTS = 480
TENANTS = [
    "acme-retail",
    "borealis-bank",
    "cobalt-mining",
    "delta-airports",
    "ember-energy",
    "fjord-shipping",
    "granite-insurance",
    "harbor-logistics",
    "iris-clinics",
    "juniper-law",
    "kestrel-media",
    "lumen-telecom",
    "meridian-hotels",
    "northwind-foods",
    "opal-pharma",
    "pinecrest-schools",
    "quartz-semicon",
    "redwood-realty",
    "summit-outdoor",
    "tidewater-utilities",
    "umbra-games",
    "verdant-farms",
    "willow-care",
    "yarrow-textiles",
]


@dataclass
class TenantBaseline:
    mean: torch.Tensor
    scale: torch.Tensor
    weight: torch.Tensor
    threshold: float
    night_factor: float


class SessionAutoencoder(nn.Module):
    def __init__(self, hidden=96, code=24):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(FEATURES, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, code)
        )
        self.decoder = nn.Sequential(
            nn.GELU(), nn.Linear(code, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, FEATURES)
        )

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), code


class SessionScorer:
    def __init__(self, model, baselines):
        self.model = model.eval()
        self.baselines = baselines
        self.score = torch.compile(self._score)

    def _score(self, sessions, night, tenant):
        base = self.baselines[tenant]
        x = torch.log1p(sessions)
        z = ((x - base.mean) / base.scale).clamp(-8.0, 8.0)
        recon, code = self.model(z)
        resid = z - recon
        huber = torch.where(resid.abs() < 1.5, 0.5 * resid.square(), 1.5 * resid.abs() - 1.125)
        contrib = base.weight * huber * torch.tanh(0.25 * z.abs() + 0.5)
        score = contrib.mean(dim=-1) + 0.02 * code.square().mean(dim=-1)
        score = score * torch.where(night, base.night_factor, 1.0)
        top_value, top_feature = contrib.topk(3, dim=-1)
        return score, score > base.threshold, top_feature, top_value / (contrib.sum(-1, keepdim=True) + 1e-6)


def fit_autoencoder(model, gen, steps=25):
    """Short pre-training on pooled, standardised history."""
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    mix = torch.randn(12, FEATURES, generator=gen) / 12**0.5
    for _ in range(steps):
        z = torch.randn(512, 12, generator=gen) @ mix + 0.3 * torch.randn(512, FEATURES, generator=gen)
        noisy = z + 0.2 * torch.randn(z.shape, generator=gen)
        recon, _ = model(noisy)
        loss = F.smooth_l1_loss(recon, z)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"autoencoder ready, loss {loss.item():.4f}")
    return mix


def main():
    gen = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    model = SessionAutoencoder()
    mix = fit_autoencoder(model, gen)
    baselines = {}
    for name in TENANTS:
        baselines[name] = TenantBaseline(
            mean=1.0 + 2.0 * torch.rand(FEATURES, generator=gen),
            scale=0.2 + 0.6 * torch.rand(FEATURES, generator=gen),
            weight=0.5 + torch.rand(FEATURES, generator=gen),
            threshold=0.45 + 0.1 * torch.rand((), generator=gen).item(),
            night_factor=1.1 + 0.6 * torch.rand((), generator=gen).item(),
        )
    scorer = SessionScorer(model, baselines)

    popularity = 1.0 / torch.arange(1, len(TENANTS) + 1).float() ** 0.5
    arrivals = torch.multinomial(popularity, REQUESTS, replacement=True, generator=gen).tolist()
    pool = []
    for _ in range(6):
        z = torch.randn(BATCH, 12, generator=gen) @ mix + 0.3 * torch.randn(BATCH, FEATURES, generator=gen)
        odd = torch.rand(BATCH, 1, generator=gen) < 0.01
        pool.append(torch.where(odd, 3.0 * z, z))
    alerts, latency, blamed = Counter(), defaultdict(list), Counter()
    with torch.inference_mode():
        for i, k in enumerate(arrivals):
            tenant = TENANTS[k]
            base = baselines[tenant]
            sessions = torch.expm1((pool[i % len(pool)] * base.scale + base.mean).clamp(0, 9))
            night = torch.rand(BATCH, generator=gen) < 0.2
            t0 = time.perf_counter()
            score, alert, feature, share = scorer.score(sessions, night, tenant)
            latency[tenant].append(time.perf_counter() - t0)
            alerts[tenant] += int(alert.sum())
            blamed.update(feature[alert, 0].tolist())
            if i % 80 == 0:
                print(
                    f"request {i:4d} {tenant:20s} median score {score.median():.3f} alerts {int(alert.sum())} "
                    f"top share {share[:, 0].mean():.2f}"
                )
    every = sorted(t for ts in latency.values() for t in ts)
    print("most alerts:", alerts.most_common(4), "features:", blamed.most_common(3))
    print(
        f"latency ms p50 {1e3 * every[len(every) // 2]:.2f} p95 {1e3 * every[int(0.95 * len(every))]:.2f}, "
        f"sum {sum(every):.2f} s"
    )


if __name__ == "__main__":
    main()
