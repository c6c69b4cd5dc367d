"""Discrete-time hazard model for wind-turbine gearbox failures from SCADA windows."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SENSORS, STEPS, BINS = 16, 72, 30


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.inp = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)
        self.decay = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        h, gate = self.inp(self.norm(x)).chunk(2, dim=-1)
        a = torch.sigmoid(self.decay)
        prev = F.pad(h[:, :-1], (0, 0, 1, 0))
        prev2 = F.pad(h[:, :-2], (0, 0, 2, 0))
        h = (1 - a) * h + a * (1 - a) * prev + a * a * prev2
        return x + self.out(F.mish(h) * torch.sigmoid(gate))


class HazardNet(nn.Module):
    def __init__(self, dim=48, depth=3):
        super().__init__()
        self.stem = nn.Linear(SENSORS, dim)
        self.blocks = nn.ModuleList([GatedBlock(dim) for _ in range(depth)])
        self.norm = RMSNorm(dim)
        self.attn = nn.Linear(dim, 1)
        self.head = nn.Linear(dim, BINS)

    def forward(self, x):
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-3)
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        w = torch.softmax(self.attn(h), dim=1)
        return self.head((w * h).sum(1))

    def nll(self, x, bin_idx, failed):
        logits = self(x)
        grid = torch.arange(BINS, device=x.device)
        survived = (grid < bin_idx[:, None]).float()
        at_event = F.one_hot(bin_idx, BINS) * failed[:, None]
        log_surv = F.logsigmoid(-logits)
        log_haz = F.logsigmoid(logits)
        ll = (survived * log_surv + at_event * log_haz).sum(1)
        smooth = (logits[:, 1:] - logits[:, :-1]).square().mean()
        return -ll.mean() + 0.01 * smooth


def synthetic_fleet(n, gen):
    wear = torch.rand(n, generator=gen)
    t = torch.linspace(0, 1, STEPS)
    mix = torch.randn(3, SENSORS, generator=gen)
    load = torch.cumsum(torch.randn(n, STEPS, generator=gen) * 0.1, 1)
    temp = wear[:, None] * t + 0.3 * load
    vib = wear[:, None] ** 2 * torch.randn(n, STEPS, generator=gen)
    x = torch.stack([load, temp, vib], -1) @ mix
    x = x + 0.1 * torch.randn(x.shape, generator=gen)
    life = (BINS * (1.15 - wear) + 2 * torch.randn(n, generator=gen)).clamp(0, BINS - 1).long()
    failed = (torch.rand(n, generator=gen) < 0.7).float()
    return x, life, failed


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=192)
    args = ap.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    x, life, failed = synthetic_fleet(3000, gen)

    model = torch.compile(HazardNet())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)

    def train_step():
        idx = torch.randint(0, 2600, (args.batch,), generator=gen)
        loss = model.nll(x[idx], life[idx], failed[idx])
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.detach()

    for _ in range(5):
        train_step()

    t0 = time.perf_counter()
    losses = [train_step() for _ in range(args.steps)]
    elapsed = time.perf_counter() - t0
    print(
        f"nll {losses[0]:.3f} -> {torch.stack(losses[-10:]).mean():.3f}, "
        f"{1e3 * elapsed / args.steps:.2f} ms/step"
    )

    model.eval()
    with torch.no_grad():
        risk = torch.sigmoid(model(x[2600:2900])).cumsum(1)[:, BINS // 2]
    later = life[2600:2900]
    pairs = later[:, None] < later[None]
    c_index = ((risk[:, None] > risk[None]) & pairs).sum() / pairs.sum()
    print(f"held-out concordance {c_index:.3f}")


if __name__ == "__main__":
    main()
