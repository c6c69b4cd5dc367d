"""House valuations with Monte-Carlo dropout intervals.

A trained tabular network is scored in batches; each listing is passed through
the network with SAMPLES dropout draws to get a valuation and its spread.
"""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLES = 40
BATCH = 256
N_NUM = 22
CARDS = (60, 12, 8, 400)


class ValuationNet(nn.Module):
    def __init__(self, hidden=160, p=0.15):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c, 8) for c in CARDS])
        width = N_NUM + 8 * len(CARDS)
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, 2)
        self.p = p

    def drop(self, x):
        return F.dropout(x, self.p, training=True)

    def forward(self, num, cat):
        emb = [e(cat[:, i]) for i, e in enumerate(self.embeds)]
        x = torch.cat([num] + emb, dim=-1)
        h = self.drop(F.gelu(self.fc1(x)))
        h = h + self.drop(F.gelu(self.fc2(h)))
        h = self.norm(h + self.drop(F.gelu(self.fc3(h))))
        mean, log_var = self.out(h).unbind(-1)
        return mean, log_var.clamp(-6, 2)


def make_listings(rng, n):
    num = rng.normal(size=(n, N_NUM)).astype(np.float32)
    cat = np.stack([rng.integers(0, c, n) for c in CARDS], axis=1)
    price = 0.5 * num[:, 0] + 0.3 * np.tanh(num[:, 1] * num[:, 2]) + 0.02 * cat[:, 1]
    price = price + 0.1 * rng.normal(size=n)
    return (torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(price.astype(np.float32)))


def fit(model, num, cat, price, steps=60):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for s in range(steps):
        lo = (s * BATCH) % (len(price) - BATCH)
        mean, log_var = model(num[lo : lo + BATCH], cat[lo : lo + BATCH])
        target = price[lo : lo + BATCH]
        loss = (0.5 * log_var + 0.5 * (mean - target) ** 2 * torch.exp(-log_var)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    num, cat, price = make_listings(rng, 12000)
    model = ValuationNet()
    print(f"final training nll {fit(model, num, cat, price):.3f}")

    @torch.compile(fullgraph=True)
    def predict(num, cat):
        n = num.shape[0]
        mean, log_var = model(num.repeat(SAMPLES, 1), cat.repeat(SAMPLES, 1))
        mean = mean.view(SAMPLES, n)
        noise = torch.exp(log_var).view(SAMPLES, n)
        centre = mean.mean(0)
        epistemic = mean.var(0)
        total = (epistemic + noise.mean(0)).sqrt()
        return centre, total, epistemic.sqrt()

    covered, seen, times = 0, 0, []
    with torch.no_grad():
        for _ in range(3):
            predict(num[:BATCH], cat[:BATCH])
        for lo in range(0, len(price) - BATCH + 1, BATCH):
            t0 = time.perf_counter()
            centre, total, epi = predict(num[lo : lo + BATCH], cat[lo : lo + BATCH])
            times.append(time.perf_counter() - t0)
            inside = (price[lo : lo + BATCH] - centre).abs() < 1.645 * total
            covered += int(inside.sum())
            seen += BATCH
    print(
        f"90% interval coverage {covered / seen:.3f} over {seen} listings, "
        f"model share {float((epi / total).mean()):.2f}"
    )
    print(f"{len(times)} batches, {1e3 * np.mean(times):.2f} ms per batch")


if __name__ == "__main__":
    main()
