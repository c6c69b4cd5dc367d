"""Mortality prediction from irregular ICU time series with GRU-D (decay on missing values)."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class GRUDCell(nn.Module):
    def __init__(self, features, hidden, means):
        super().__init__()
        self.register_buffer("means", means)
        self.input_decay_w = nn.Parameter(torch.full((features,), 0.1))
        self.input_decay_b = nn.Parameter(torch.zeros(features))
        self.hidden_decay = nn.Linear(features, hidden)
        self.gates = nn.Linear(2 * features + hidden, 2 * hidden)
        self.candidate = nn.Linear(2 * features + hidden, hidden)

    def forward(self, x, mask, delta, last, h):
        gamma_x = torch.exp(-F.relu(self.input_decay_w * delta + self.input_decay_b))
        imputed = gamma_x * last + (1 - gamma_x) * self.means
        x_hat = torch.where(mask > 0, x, imputed)
        last = torch.where(mask > 0, x, last)

        h = h * torch.exp(-F.relu(self.hidden_decay(delta)))
        inp = torch.cat([x_hat, mask, h], dim=-1)
        z, r = torch.sigmoid(self.gates(inp)).chunk(2, dim=-1)
        n = torch.tanh(self.candidate(torch.cat([x_hat, mask, r * h], dim=-1)))
        h = (1 - z) * h + z * n
        return h, last


class GRUD(nn.Module):
    def __init__(self, features, static, hidden, means, dropout=0.2):
        super().__init__()
        self.hidden = hidden
        self.cell = torch.compile(GRUDCell(features, hidden, means))
        self.start = nn.Linear(static, hidden)
        self.head = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(hidden, hidden // 2), nn.ReLU(), nn.Linear(hidden // 2, 1)
        )

    def forward(self, x, mask, delta, static, lengths):
        h = torch.tanh(self.start(static))
        last = torch.zeros_like(x[:, 0])
        states = []
        for t in range(x.shape[1]):
            h, last = self.cell(x[:, t], mask[:, t], delta[:, t], last, h)
            states.append(h)
        states = torch.stack(states, dim=1)
        final = states[torch.arange(len(lengths)), lengths - 1]
        return self.head(final).squeeze(-1)


def cohort(n, hours, features, static, gen):
    """Random walks with bursts of measurements; the outcome depends on three of the channels."""
    x = 0.3 * torch.randn(n, hours, features, generator=gen).cumsum(1)
    s = torch.randn(n, static, generator=gen)
    rate = torch.rand(features, generator=gen) * 0.5 + 0.05
    mask = (torch.rand(n, hours, features, generator=gen) < rate).float()
    lengths = torch.randint(hours // 2, hours + 1, (n,), generator=gen)
    delta = torch.zeros(n, hours, features)
    for t in range(1, hours):
        delta[:, t] = 1.0 + (1.0 - mask[:, t - 1]) * delta[:, t - 1]
    logit = x[torch.arange(n), lengths - 1, :3].sum(-1) + 0.5 * s[:, 0] - 1.0
    y = (torch.rand(n, generator=gen) < torch.sigmoid(logit)).float()
    return x * mask, mask, delta / 6.0, s, lengths, y


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = y.sum()
    return ((rank * y).sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--patients", type=int, default=1600)
    ap.add_argument("--hours", type=int, default=36)
    ap.add_argument("--features", type=int, default=28)
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(13)
    data = cohort(args.patients, args.hours, args.features, 6, gen)
    x, mask = data[0], data[1]
    means = x.sum((0, 1)) / mask.sum((0, 1)).clamp(min=1)
    model = GRUD(args.features, 6, args.hidden, means)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)

    def train_step(idx):
        xb, mb, db, sb, lb, yb = (t[idx] for t in data)
        logit = model(xb, mb, db, sb, lb)
        loss = F.binary_cross_entropy_with_logits(logit, yb)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        return loss

    holdout = args.patients - 320
    for _ in range(2):
        train_step(torch.arange(args.batch))

    steps, t0 = 0, time.perf_counter()
    for epoch in range(args.epochs):
        order = torch.randperm(holdout, generator=gen)
        total = 0.0
        for i in range(0, holdout - args.batch + 1, args.batch):
            total += train_step(order[i : i + args.batch]).item()
            steps += 1
        print(f"epoch {epoch} loss {total / (holdout // args.batch):.4f}")
    dt = time.perf_counter() - t0

    model.eval()
    with torch.no_grad():
        scores = model(*(t[holdout:] for t in data[:5]))
    print(f"holdout AUC {auc(scores, data[5][holdout:]).item():.3f}")
    print(f"{steps} steps, {dt / steps * 1e3:.2f} ms per step")


if __name__ == "__main__":
    main()
