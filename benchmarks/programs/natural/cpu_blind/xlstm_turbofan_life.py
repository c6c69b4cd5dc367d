"""Remaining useful life of turbofan engines with an mLSTM (xLSTM's parallel matrix-memory form)."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
T, SENSORS, DIM, HEADS = 128, 14, 96, 4


def synth_engines(n):
    """Windows of sensor readings of degrading engines, and the cycles left at the window's end."""
    life = 150 + 120 * torch.rand(n)
    end = T + (life - T) * torch.rand(n)
    t = end[:, None] - torch.arange(T - 1, -1, -1)[None]
    frac = t / life[:, None]
    wear = torch.exp(4.5 * (frac - 1))
    gain = torch.linspace(-1.2, 1.2, SENSORS)
    regime = torch.randint(0, 3, (n, T)).float()
    x = wear[..., None] * gain + 0.25 * torch.sin(regime[..., None] + torch.arange(SENSORS))
    x = x + 0.15 * torch.randn(n, T, SENSORS)
    return x, (life - end).clamp(max=100) / 100


class MLSTMBlock(nn.Module):
    def __init__(self, dim, heads, conv=4):
        super().__init__()
        self.heads, self.inner = heads, 2 * dim
        self.hd = self.inner // heads
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * self.inner)
        self.conv = nn.Conv1d(self.inner, self.inner, conv, groups=self.inner, padding=conv - 1)
        self.q = nn.Linear(self.inner, self.inner, bias=False)
        self.k = nn.Linear(self.inner, self.inner, bias=False)
        self.v = nn.Linear(self.inner, self.inner, bias=False)
        self.igate = nn.Linear(self.inner, heads)
        self.fgate = nn.Linear(self.inner, heads)
        nn.init.constant_(self.fgate.bias, 4.0)
        self.out_norm = nn.GroupNorm(heads, self.inner)
        self.skip = nn.Parameter(torch.ones(self.inner))
        self.down = nn.Linear(self.inner, dim)
        self.register_buffer("causal", torch.tril(torch.ones(T, T, dtype=torch.bool)))

    def cell(self, q, k, v, i, f):
        logf = torch.cumsum(F.logsigmoid(f), dim=-1)  # B H T
        decay = logf[..., :, None] - logf[..., None, :] + i[..., None, :]
        decay = decay.masked_fill(~self.causal, -torch.inf)
        m = decay.amax(-1, keepdim=True)
        D = torch.exp(decay - m)
        C = (q @ k.transpose(-1, -2)) / math.sqrt(self.hd) * D
        n = torch.maximum(C.sum(-1, keepdim=True).abs(), torch.exp(-m))
        return (C / (n + 1e-6)) @ v

    def forward(self, x):
        b, t, _ = x.shape
        u, z = self.up(self.norm(x)).chunk(2, -1)
        c = F.silu(self.conv(u.transpose(1, 2))[..., :t].transpose(1, 2))
        q, k = (p(c).view(b, t, self.heads, self.hd).transpose(1, 2) for p in (self.q, self.k))
        v = self.v(u).view(b, t, self.heads, self.hd).transpose(1, 2)
        h = self.cell(q, k, v, self.igate(c).transpose(1, 2), self.fgate(c).transpose(1, 2))
        h = h.transpose(1, 2).reshape(b * t, self.inner)
        h = self.out_norm(h).view(b, t, self.inner)
        return x + self.down((h + self.skip * c) * F.silu(z))


class LifeModel(nn.Module):
    def __init__(self, blocks=2):
        super().__init__()
        self.inp = nn.Linear(SENSORS, DIM)
        self.blocks = nn.ModuleList(MLSTMBlock(DIM, HEADS) for _ in range(blocks))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, 3)  # 10, 50, 90 % quantiles

    def forward(self, x):
        x = self.inp(x)
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x[:, -1]))


def pinball(pred, y):
    q = torch.tensor([0.1, 0.5, 0.9])
    e = y[:, None] - pred
    return torch.maximum(q * e, (q - 1) * e).mean()


def main():
    x, y = synth_engines(512)
    xv, yv = synth_engines(256)
    model = LifeModel()
    model.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    batch = 16
    for epoch in range(2):
        model.train()
        perm = torch.randperm(len(x))
        total, steps = 0.0, 0
        for s in range(0, len(x) - batch + 1, batch):
            idx = perm[s : s + batch]
            loss = pinball(model(x[idx]), y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total, steps = total + loss.item(), steps + 1
        model.eval()
        with torch.no_grad():
            pred = torch.cat([model(c) for c in xv.split(64)])
        mae = (pred[:, 1] - yv).abs().mean() * 100
        cover = ((yv > pred[:, 0]) & (yv < pred[:, 2])).float().mean()
        print(f"epoch {epoch}: train {total / steps:.4f}  mae {mae:.1f} cycles  80% band covers {cover:.2f}")


if __name__ == "__main__":
    main()
