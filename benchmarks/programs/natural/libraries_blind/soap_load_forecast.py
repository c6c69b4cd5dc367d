"""Day-ahead electricity load forecasting with a patch mixer, optimised with SOAP."""

import math
import time

import torch
import torch.nn.functional as F
from pytorch_optimizer import SOAP
from torch import nn

HISTORY = 336  # two weeks, hourly
HORIZON = 24
PATCH = 12
ZONES = 8
BATCH = 32
STEPS = 300
WARMUP = 2
BASE_LR = 3e-3


class MixerBlock(nn.Module):
    def __init__(self, patches: int, dim: int, expand: int = 2):
        super().__init__()
        self.norm_t = nn.LayerNorm(dim)
        self.mix_t = nn.Sequential(
            nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches)
        )
        self.norm_c = nn.LayerNorm(dim)
        self.mix_c = nn.Sequential(nn.Linear(dim, expand * dim), nn.GELU(), nn.Linear(expand * dim, dim))

    def forward(self, x):
        x = x + self.mix_t(self.norm_t(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mix_c(self.norm_c(x))


class LoadForecaster(nn.Module):
    def __init__(self, dim: int = 96, depth: int = 3, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.patches = HISTORY // PATCH
        self.register_buffer("quantiles", torch.tensor(quantiles))
        self.embed = nn.Linear(PATCH * ZONES, dim)
        self.calendar = nn.Linear(4, dim)
        self.blocks = nn.ModuleList(MixerBlock(self.patches, dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, ZONES * HORIZON * len(quantiles))

    def forward(self, load, calendar):
        level = load.mean(1, keepdim=True)
        scale = load.std(1, keepdim=True) + 1e-4
        x = ((load - level) / scale).reshape(load.shape[0], self.patches, PATCH * ZONES)
        x = self.embed(x) + self.calendar(calendar).unsqueeze(1)
        for block in self.blocks:
            x = block(x)
        out = self.head(self.norm(x).mean(1)).view(-1, HORIZON, ZONES, len(self.quantiles))
        return out * scale.unsqueeze(-1) + level.unsqueeze(-1)


def pinball(pred, target, quantiles):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(quantiles * err, (quantiles - 1) * err).mean()


def make_series(hours: int, gen: torch.Generator) -> torch.Tensor:
    t = torch.arange(hours).unsqueeze(1)
    phase = 2 * math.pi * torch.rand(ZONES, generator=gen)
    daily = torch.sin(2 * math.pi * t / 24 + phase) + 0.4 * torch.sin(4 * math.pi * t / 24 + 2 * phase)
    weekly = 0.5 * torch.cos(2 * math.pi * t / 168 + phase)
    yearly = 0.8 * torch.cos(2 * math.pi * t / 8766)
    noise = torch.randn(hours, ZONES, generator=gen)
    weather = F.avg_pool1d(noise.t().unsqueeze(0), 25, stride=1, padding=12)[0].t() * 3
    return 5 + daily + weekly + yearly + weather + 0.05 * noise


def sample(series: torch.Tensor, gen: torch.Generator):
    starts = torch.randint(0, len(series) - HISTORY - HORIZON, (BATCH,), generator=gen)
    windows = torch.stack([series[s : s + HISTORY + HORIZON] for s in starts.tolist()])
    hour = starts % 24 * (2 * math.pi / 24)
    day = starts // 24 % 7 * (2 * math.pi / 7)
    calendar = torch.stack([hour.sin(), hour.cos(), day.sin(), day.cos()], dim=1)
    return windows[:, :HISTORY], calendar, windows[:, HISTORY:]


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(9)
    series = make_series(3 * 8766, gen)

    model = LoadForecaster()
    optimizer = SOAP(
        model.parameters(), lr=BASE_LR, betas=(0.95, 0.95), weight_decay=1e-4, precondition_frequency=10
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 30) * 0.5 * (1 + math.cos(math.pi * s / STEPS))
    )
    forward = torch.compile(model)

    @torch.compile
    def optimizer_step():
        optimizer.step()

    started = time.perf_counter()
    for step in range(1, STEPS + 1):
        load, calendar, target = sample(series, gen)
        loss = pinball(forward(load, calendar), target, model.quantiles)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step <= WARMUP:  # allocates the preconditioner state
            optimizer.step()
        else:
            optimizer_step()
        scheduler.step()
        if step % 50 == 0:
            took = (time.perf_counter() - started) / 50
            print(
                f"step {step:3d}  pinball {loss.item():.4f}  lr {scheduler.get_last_lr()[0]:.2e}  {1e3 * took:.1f} ms/step"
            )
            started = time.perf_counter()

    model.eval()
    with torch.no_grad():
        load, calendar, target = sample(series, gen)
        q10, q50, q90 = model(load, calendar).unbind(-1)
        inside = ((target >= q10) & (target <= q90)).float().mean()
        print(f"MAE {(q50 - target).abs().mean():.4f}   80 % interval coverage {inside:.2f}")


if __name__ == "__main__":
    main()
