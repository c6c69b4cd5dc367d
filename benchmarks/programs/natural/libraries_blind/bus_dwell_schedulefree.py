"""Dwell time of buses at stops: a residual MLP on categories and counts, trained with schedulefree's AdamW."""

import time

import schedulefree
import torch
from torch import nn

CARDS = {"stop": 4000, "route": 180, "vehicle": 900, "driver": 1500, "hour": 24, "weekday": 7}
DIMS = {"stop": 24, "route": 12, "vehicle": 12, "driver": 12, "hour": 6, "weekday": 3}
NUMERIC = 9
BATCH = 512


def make_trips(n, seed):
    """Synthetic passenger counter records. Dwell: doors + boarding + alighting + crowding + habits of the driver."""
    g = torch.Generator().manual_seed(seed)
    fixed = torch.Generator().manual_seed(77)
    cats = torch.stack([torch.randint(0, c, (n,), generator=g) for c in CARDS.values()], 1)
    effect = {k: torch.randn(c, generator=fixed) for k, c in CARDS.items()}
    board = torch.poisson(torch.exp(0.8 + 0.4 * effect["stop"][cats[:, 0]]), generator=g)
    alight = torch.poisson(torch.exp(0.6 + 0.3 * effect["route"][cats[:, 1]]), generator=g)
    load = 40 * torch.rand(n, generator=g)
    cash = torch.binomial(board, torch.full((n,), 0.12), generator=g)
    rain = (torch.rand(n, generator=g) < 0.2).float()
    wheel = (torch.rand(n, generator=g) < 0.02).float()
    late = 60 * torch.randn(n, generator=g)
    temp = 10 + 8 * torch.randn(n, generator=g)
    signal = torch.rand(n, generator=g)
    dwell = (
        4
        + torch.maximum(2.2 * board + 4.5 * cash, 1.4 * alight) * (1 + 0.012 * (load - 25).clamp_min(0))
        + 25 * wheel
        + 1.5 * rain
        + 0.8 * effect["driver"][cats[:, 3]]
        - 0.02 * late.clamp(-60, 60)
        + 6 * (signal > 0.8)
    )
    dwell = dwell * torch.exp(0.15 * torch.randn(n, generator=g))
    nums = torch.stack(
        [board / 3, alight / 3, load / 20 - 1, cash, rain, wheel * 3, late / 60, temp / 10 - 1, signal], 1
    )
    return cats, nums, torch.log(dwell)


class ResBlock(nn.Module):
    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.drop(self.down(torch.relu(self.up(self.norm(x)))))


class DwellNet(nn.Module):
    def __init__(self, width=160, depth=4):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(c, DIMS[k]) for k, c in CARDS.items()])
        self.inp = nn.Linear(sum(DIMS.values()) + NUMERIC, width)
        self.blocks = nn.Sequential(*[ResBlock(width) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2))

    def forward(self, cats, nums):
        x = torch.cat([t(cats[:, i]) for i, t in enumerate(self.tables)] + [nums], 1)
        mean, log_scale = self.head(self.blocks(self.inp(x))).unbind(-1)
        return mean + 2.5, log_scale.clamp(-4, 2)


def nll(mean, log_scale, y):
    """Laplace negative log likelihood of the log dwell time."""
    return (torch.abs(y - mean) * torch.exp(-log_scale) + log_scale).mean()


def validate(model, optimizer, data):
    model.eval()
    optimizer.eval()
    losses, errors = [], []
    with torch.no_grad():
        for c, n, y in zip(*(d.split(BATCH) for d in data)):
            mean, log_scale = model(c, n)
            losses.append(nll(mean, log_scale, y))
            errors.append((torch.exp(mean) - torch.exp(y)).abs().mean())
    model.train()
    optimizer.train()
    return torch.stack(losses).mean().item(), torch.stack(errors).mean().item()


def main():
    torch.manual_seed(0)
    train = make_trips(BATCH * 150, 1)
    valid = make_trips(BATCH * 16, 2)
    model = torch.compile(DwellNet())
    optimizer = schedulefree.AdamWScheduleFree(
        model.parameters(), lr=4e-3, warmup_steps=50, weight_decay=1e-4
    )
    model.train()
    optimizer.train()
    for epoch in range(3):
        t0 = time.time()
        perm = torch.randperm(train[0].shape[0])
        running = 0.0
        for i in range(0, perm.numel(), BATCH):
            idx = perm[i : i + BATCH]
            mean, log_scale = model(train[0][idx], train[1][idx])
            loss = nll(mean, log_scale, train[2][idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        v, mae = validate(model, optimizer, valid)
        print(
            f"epoch {epoch}: train {running / 150:.4f}  valid {v:.4f}  mae {mae:.2f} s  ({time.time() - t0:.1f} s)"
        )


if __name__ == "__main__":
    main()
