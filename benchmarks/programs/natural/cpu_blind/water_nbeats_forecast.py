"""Forecast hourly water demand of a town's district meters with an interpretable N-BEATS network."""

import math

import torch
from torch import nn

torch.set_num_threads(2)

LOOKBACK, HORIZON = 168, 24


def simulate_meters(meters, hours, gen):
    t = torch.arange(hours, dtype=torch.float32)
    base = 20 + 30 * torch.rand(meters, 1, generator=gen)
    phase = torch.rand(meters, 1, generator=gen) * 2
    daily = torch.sin(2 * math.pi * (t - 7 - phase) / 24) + 0.5 * torch.sin(
        4 * math.pi * (t - 6 - phase) / 24
    )
    weekly = 0.2 * torch.cos(2 * math.pi * t / 168)
    drift = torch.cumsum(0.01 * torch.randn(meters, hours, generator=gen), 1)
    noise = 0.1 * torch.randn(meters, hours, generator=gen)
    bursts = (torch.rand(meters, hours, generator=gen) > 0.999).float() * 2
    return base * (2 + 0.6 * daily + weekly + drift + noise + bursts).clamp_min(0.05)


def trend_basis(degree, length, start, span):
    grid = (torch.arange(length) + start) / span
    return torch.stack([grid**p for p in range(degree + 1)])


def season_basis(harmonics, length, start):
    grid = (torch.arange(length) + start) / 24
    waves = []
    for k in range(1, harmonics + 1):
        waves += [torch.cos(2 * math.pi * k * grid), torch.sin(2 * math.pi * k * grid)]
    return torch.stack(waves)


class Block(nn.Module):
    def __init__(self, back, fore, width):
        super().__init__()
        self.register_buffer("back", back)
        self.register_buffer("fore", fore)
        layers = [nn.Linear(LOOKBACK, width), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.theta_b = nn.Linear(width, back.shape[0], bias=False)
        self.theta_f = nn.Linear(width, fore.shape[0], bias=False)

    def forward(self, x):
        h = self.trunk(x)
        return self.theta_b(h) @ self.back, self.theta_f(h) @ self.fore


class NBeats(nn.Module):
    def __init__(self, width=256, blocks=3):
        super().__init__()
        trend = trend_basis(3, LOOKBACK, -LOOKBACK, LOOKBACK), trend_basis(3, HORIZON, 0, LOOKBACK)
        season = season_basis(8, LOOKBACK, -LOOKBACK), season_basis(8, HORIZON, 0)
        self.trend = nn.ModuleList(Block(*trend, width) for _ in range(blocks))
        self.season = nn.ModuleList(Block(*season, width) for _ in range(blocks))

    def forward(self, window):
        level = window.abs().mean(1, keepdim=True)
        residual = window / level
        parts = []
        for stack in (self.trend, self.season):
            forecast = 0.0
            for block in stack:
                back, fore = block(residual)
                residual = residual - back
                forecast = forecast + fore
            parts.append(forecast * level)
        return parts[0], parts[1]


def smape_mase(pred, target, window):
    smape = (2 * (pred - target).abs() / (pred.abs() + target.abs() + 1e-3)).mean()
    scale = (window[:, 24:] - window[:, :-24]).abs().mean(1, keepdim=True)
    mase = ((pred - target).abs() / (scale + 1e-3)).mean()
    return smape + 0.5 * mase


def sample_windows(series, count, gen):
    rows = torch.randint(0, series.shape[0], (count,), generator=gen)
    starts = torch.randint(0, series.shape[1] - LOOKBACK - HORIZON, (count,), generator=gen)
    cols = starts[:, None] + torch.arange(LOOKBACK + HORIZON)
    chunk = series[rows[:, None], cols]
    return chunk[:, :LOOKBACK], chunk[:, LOOKBACK:]


def main():
    gen = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    series = simulate_meters(120, 24 * 150, gen)
    train, test = series[:, : -24 * 30], series[:, -24 * 30 :]
    net = NBeats()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)

    @torch.compile(fullgraph=True)
    def loss_fn(window, target):
        trend, season = net(window)
        return smape_mase(trend + season, target, window)

    running = None
    for step in range(300):
        window, target = sample_windows(train, 512, gen)
        loss = loss_fn(window, target)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        value = loss.item()
        running = value if running is None else 0.95 * running + 0.05 * value
        if step % 100 == 99:
            print(f"step {step + 1}: running loss {running:.4f}")
    with torch.no_grad():
        window, target = sample_windows(test, 1024, gen)
        trend, season = net(window)
        naive = (window[:, -24:] - target).abs().mean()
        print(f"MAE {(trend + season - target).abs().mean():.2f} against seasonal naive {naive:.2f}")


if __name__ == "__main__":
    main()
