"""Trains a multi-horizon quantile forecaster (temporal convolutions, LSTM and gated residual blocks) with Lightning and a compiled model."""

import math

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


class GRN(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b, self.gate, self.norm = (
            nn.Linear(d, d),
            nn.Linear(d, d),
            nn.Linear(d, 2 * d),
            nn.LayerNorm(d),
        )

    def forward(self, x):
        return self.norm(x + F.glu(self.gate(self.b(F.elu(self.a(x))))))


class Forecaster(nn.Module):
    def __init__(self, features=8, d=128, horizon=24):
        super().__init__()
        self.inp = nn.Linear(features, d)
        self.convs = nn.ModuleList(nn.Conv1d(d, d, 3, dilation=2**i) for i in range(4))
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.grns = nn.ModuleList(GRN(d) for _ in range(2))
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.future = nn.Parameter(torch.randn(horizon, d) * 0.02)
        self.out = nn.Linear(d, len(QUANTILES))

    def forward(self, x):
        h = self.inp(x).transpose(1, 2)
        for i, conv in enumerate(self.convs):
            h = h + F.gelu(conv(F.pad(h, (2 * 2**i, 0))))
        h, _ = self.lstm(h.transpose(1, 2))
        for g in self.grns:
            h = g(h)
        q = self.future.expand(x.shape[0], -1, -1) + h[:, -1:]
        ctx, _ = self.attn(q, h, h, need_weights=False)
        first, rest = self.out(q + ctx).split([1, len(QUANTILES) - 1], -1)
        return torch.cat([first, first + F.softplus(rest).cumsum(-1)], -1)


def pinball(pred, y, q):
    err = y.unsqueeze(-1) - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.compile(Forecaster())
        self.register_buffer("q", torch.tensor(QUANTILES))
        self.history = []

    def training_step(self, batch, _):
        x, y = batch
        loss = pinball(self.model(x).float(), y, self.q)
        self.history.append(loss.detach())
        return loss

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=2e-3)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(opt, 36)}


def series(n, length, gen):
    t = torch.arange(length).float()
    ph, amp = torch.rand(n, 3, 1, generator=gen) * 6.28, torch.rand(n, 3, 1, generator=gen)
    periods = torch.tensor([24.0, 168.0, 12.0]).view(1, 3, 1)
    y = (amp * torch.sin(2 * math.pi * t / periods + ph)).sum(1) + 0.2 * torch.randn(n, length, generator=gen)
    cov = torch.stack([torch.sin(2 * math.pi * t / p) for p in (24, 168, 12)] + [t / length], -1)
    extra = torch.randn(n, length, 3, generator=gen)
    return torch.cat([y.unsqueeze(-1), cov.expand(n, -1, -1), extra], -1), y


def main():
    L.seed_everything(23)
    feats, y = series(36 * 256, 192, torch.Generator().manual_seed(23))
    data = TensorDataset(feats[:, :168, :], y[:, 168:])
    loader = DataLoader(data, batch_size=256, shuffle=True, pin_memory=True, drop_last=True)
    lit = Lit()
    trainer = L.Trainer(
        max_steps=36,
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(lit, loader)
    print("pinball %.4f -> %.4f" % (lit.history[0].item(), lit.history[-1].item()))


if __name__ == "__main__":
    main()
