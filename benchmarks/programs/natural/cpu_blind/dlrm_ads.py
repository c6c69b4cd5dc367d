"""Click-through-rate model (DLRM: embedding bags + dense MLP + pairwise feature
interactions) trained online on a synthetic impression log."""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DENSE = 13
EMB = 32
CARDS = [150_000, 60_000, 40_000, 20_000, 8_000, 2_000, 500, 100, 24, 7]
MULTI = {0: 8, 2: 5}  # features that carry a list of ids
BATCH = 1024
STEPS = 90


class Impressions:
    """Zipf-like ids with a hidden preference vector per id."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.pref = [self.rng.normal(0, 0.5, size=c).astype(np.float32) for c in CARDS]
        self.w = self.rng.normal(0, 0.3, size=DENSE).astype(np.float32)

    def _ids(self, card, size):
        u = self.rng.random(size)
        return np.minimum((card * u**3).astype(np.int64), card - 1)

    def batch(self, n):
        dense = self.rng.lognormal(0, 1, size=(n, DENSE)).astype(np.float32)
        logit = np.log1p(dense) @ self.w - 1.2
        ids = []
        for f, card in enumerate(CARDS):
            idx = self._ids(card, (n, MULTI.get(f, 1)))
            logit = logit + self.pref[f][idx].mean(1)
            ids.append(torch.from_numpy(idx))
        y = (self.rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
        return torch.from_numpy(np.log1p(dense)), ids, torch.from_numpy(y)


def mlp(sizes, last_act=True):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if last_act or i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(c, EMB, mode="mean") for c in CARDS)
        for t, c in zip(self.tables, CARDS):
            nn.init.uniform_(t.weight, -(c**-0.5), c**-0.5)
        self.bottom = mlp([DENSE, 256, 64, EMB])
        f = len(CARDS) + 1
        self.register_buffer("tri", torch.tril_indices(f, f, offset=-1))
        self.top = mlp([EMB + f * (f - 1) // 2, 256, 128, 1], last_act=False)

    def forward(self, dense, ids):
        x = self.bottom(dense)
        feats = torch.stack([x] + [t(i) for t, i in zip(self.tables, ids)], dim=1)
        inter = feats @ feats.transpose(1, 2)
        pairs = inter[:, self.tri[0], self.tri[1]]
        return self.top(torch.cat([x, pairs], dim=1)).squeeze(1)


def auc(score, label):
    order = torch.argsort(score)
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label.sum()
    neg = len(label) - pos
    return ((rank[label > 0.5].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main():
    torch.manual_seed(17)
    log = Impressions(17)
    model = DLRM()
    n_par = sum(p.numel() for p in model.parameters())
    print(f"{n_par / 1e6:.1f}M parameters, {len(CARDS)} sparse features")
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    run_loss, seen, t0 = 0.0, 0, time.perf_counter()
    for step in range(1, STEPS + 1):
        dense, ids, y = log.batch(BATCH)
        logits = net(dense, ids)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run_loss += loss.item()
        seen += BATCH
        if step % 30 == 0:
            dt = time.perf_counter() - t0
            print(f"step {step:4d}  logloss {run_loss / 30:.4f}  {seen / dt:9.0f} examples/s")
            run_loss, seen, t0 = 0.0, 0, time.perf_counter()

    model.eval()
    with torch.no_grad():
        dense, ids, y = log.batch(8192)
        score = model(dense, ids)
    print(f"holdout auc {auc(score, y):.4f}  base rate {y.mean().item():.3f}")


if __name__ == "__main__":
    main()
