"""Quantile forecasts of combined-sewer levels with gated residual networks, trained with PyTorch Lightning."""

import logging
import warnings

import pytorch_lightning as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

HISTORY, HORIZON, SENSORS = 48, 12, 6
QUANTILES = (0.1, 0.5, 0.9)


class GatedResidual(nn.Module):
    """The gated residual network of the temporal fusion transformer."""

    def __init__(self, dim, context=None, dropout=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, dim)
        self.ctx = nn.Linear(context, dim, bias=False) if context else None
        self.fc2 = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, 2 * dim)
        self.drop = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, c=None):
        h = self.fc1(x)
        if self.ctx is not None:
            h = h + self.ctx(c).unsqueeze(1)
        h = self.fc2(F.elu(h))
        a, b = self.gate(self.drop(h)).chunk(2, -1)
        return self.norm(x + a * torch.sigmoid(b))


class VariableSelection(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(n, dim) * 0.3)
        self.bias = nn.Parameter(torch.zeros(n, dim))
        self.score = nn.Linear(n, n)

    def forward(self, x):
        w = self.score(x).softmax(-1)
        values = F.gelu(x.unsqueeze(-1) * self.embed + self.bias)
        return (w.unsqueeze(-1) * values).sum(-2)


class SewerForecaster(pl.LightningModule):
    def __init__(self, dim=48, layers=3, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.select = VariableSelection(SENSORS, dim)
        self.place = nn.Embedding(20, 16)
        self.blocks = nn.ModuleList(GatedResidual(dim, 16, 0.1) for _ in range(layers))
        self.time = nn.Linear(HISTORY, HORIZON)
        self.out = nn.Sequential(GatedResidual(dim), nn.Linear(dim, len(QUANTILES)))
        self.register_buffer("q", torch.tensor(QUANTILES))

    def forward(self, x, site):
        c = self.place(site)
        h = self.select(x)
        for block in self.blocks:
            h = block(h, c)
        h = self.time(h.transpose(1, 2)).transpose(1, 2)
        return self.out(h) + x[:, -1:, :1]

    def pinball(self, pred, y):
        err = y.unsqueeze(-1) - pred
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()

    def training_step(self, batch, batch_idx):
        x, site, y = batch
        loss = self.pinball(self(x, site), y)
        self.log("train_pinball", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, site, y = batch
        pred = self(x, site)
        inside = ((y > pred[..., 0]) & (y < pred[..., 2])).float().mean()
        self.log("val_pinball", self.pinball(pred, y))
        self.log("val_coverage", inside)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def synthetic_catchments(sites=20, steps=1500):
    g = torch.Generator().manual_seed(6)
    rain = torch.relu(torch.randn(sites, steps, generator=g) - 1.7) * 3
    kernel = torch.exp(-torch.arange(36.0) / 8)[None, None].flip(-1)
    runoff = F.conv1d(F.pad(rain[:, None], (35, 0)), kernel)[:, 0]
    daily = 0.4 * torch.sin(torch.arange(steps) / 96 * 2 * torch.pi)
    level = 0.25 * runoff + daily + 0.05 * torch.randn(sites, steps, generator=g)
    pump = (level > 1).float()
    tide = torch.sin(torch.arange(steps) / 49.7 * 2 * torch.pi).expand(sites, -1)
    temp = torch.randn(sites, 1, generator=g).expand(-1, steps) + daily
    flow = level.clamp(min=0) ** 1.5
    series = torch.stack([level, rain, pump, tide, temp, flow], -1)
    xs, ys, ids = [], [], []
    for start in range(0, steps - HISTORY - HORIZON, 8):
        xs.append(series[:, start : start + HISTORY])
        ys.append(level[:, start + HISTORY : start + HISTORY + HORIZON])
        ids.append(torch.arange(sites))
    return torch.cat(xs), torch.cat(ids), torch.cat(ys)


def main():
    pl.seed_everything(12)
    x, site, y = synthetic_catchments()
    n = int(0.85 * len(x))
    train = DataLoader(TensorDataset(x[:n], site[:n], y[:n]), batch_size=128, shuffle=True, drop_last=True)
    val = DataLoader(TensorDataset(x[n:], site[n:], y[n:]), batch_size=128)
    model = torch.compile(SewerForecaster())
    trainer = pl.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
        num_sanity_val_steps=0,
    )
    trainer.fit(model, train, val)
    m = {k: round(float(v), 4) for k, v in trainer.callback_metrics.items()}
    print("windows", len(x), "metrics", m)


if __name__ == "__main__":
    main()
