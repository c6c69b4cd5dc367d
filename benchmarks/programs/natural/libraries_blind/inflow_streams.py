"""Daily inflow forecasts of a hydropower reservoir.

A causal transformer with manifold-constrained hyper-connections (four residual streams) learns the
distribution of the next day's log inflow; afterwards an ensemble of two-week forecasts is drawn.
"""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from einops import rearrange
from hyper_connections import mc_get_init_and_expand_reduce_stream_functions

CONTEXT = 96
FEATURES = 6
HORIZON = 14
MEMBERS = 16


class CausalAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q, k, v = rearrange(
            self.to_qkv(self.norm(x)), "b n (three h d) -> three b h n d", three=3, h=self.heads
        )
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


def feedforward(dim, mult=3):
    return nn.Sequential(nn.RMSNorm(dim), nn.Linear(dim, dim * mult), nn.SiLU(), nn.Linear(dim * mult, dim))


class InflowModel(nn.Module):
    def __init__(self, dim=96, depth=2, streams=4):
        super().__init__()
        init_hyper, self.expand, self.reduce = mc_get_init_and_expand_reduce_stream_functions(
            streams, dim=dim, sinkhorn_iters=6
        )
        self.proj_in = nn.Linear(FEATURES, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(CONTEXT, dim))
        self.layers = nn.ModuleList([])
        for i in range(depth):
            self.layers.append(init_hyper(branch=CausalAttention(dim), layer_index=2 * i))
            self.layers.append(init_hyper(branch=feedforward(dim), layer_index=2 * i + 1))
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        x = self.proj_in(x) + self.pos[: x.shape[1]]
        x = self.expand(x)
        for layer in self.layers:
            x = layer(x)
        mu, log_scale, log_df = self.head(self.norm(self.reduce(x))).unbind(-1)
        return mu, log_scale.clamp(-5, 2).exp(), 2.5 + F.softplus(log_df)


def student_nll(y, mu, scale, df):
    z = (y - mu) / scale
    return (
        torch.lgamma(df / 2)
        - torch.lgamma((df + 1) / 2)
        + 0.5 * torch.log(math.pi * df)
        + scale.log()
        + (df + 1) / 2 * torch.log1p(z * z / df)
    ).mean()


def simulate_catchment(days, gen):
    t = torch.arange(days).float()
    season = 2 * math.pi * t / 365.25
    temp = 6 - 12 * torch.cos(season) + 3 * torch.randn(days, generator=gen)
    rain = torch.where(
        torch.rand(days, generator=gen) < 0.35, -8 * torch.rand(days, generator=gen).log(), 0.0
    )
    snow = soil = 0.0
    inflow = []
    for d in range(days):
        p, tc = rain[d].item(), temp[d].item()
        if tc < 0:
            snow, water = snow + p, 0.0
        else:
            melt = min(snow, 2.2 * tc)
            snow, water = snow - melt, p + melt
        soil = max(0.0, soil + water - 0.08 * max(tc, 0))
        flow = 0.07 * soil
        soil -= flow
        inflow.append(flow + 0.2)
    y = torch.tensor(inflow).log()
    y = (y - y.mean()) / y.std()
    return torch.stack([y, rain / 10, temp / 10, season.sin(), season.cos(), (temp > 0).float()], dim=1)


def train(model, series, steps, batch, gen):
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    losses = []
    for step in range(steps):
        start = torch.randint(0, len(series) - CONTEXT - 1, (batch,), generator=gen)
        window = series[start[:, None] + torch.arange(CONTEXT + 1)]
        mu, scale, df = model(window[:, :-1])
        loss = student_nll(window[:, 1:, 0], mu, scale, df)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def forecast(model, series, at):
    window = series[at - CONTEXT : at].expand(MEMBERS, -1, -1).clone()
    paths = []
    for day in range(HORIZON):
        mu, scale, df = model(window)
        y = torch.distributions.StudentT(df[:, -1], mu[:, -1], scale[:, -1]).sample()
        tomorrow = series[at + day].expand(MEMBERS, -1).clone()
        tomorrow[:, 0] = y
        window = torch.cat([window[:, 1:], tomorrow[:, None]], dim=1)
        paths.append(y)
    return torch.stack(paths, dim=1)


def main():
    torch.manual_seed(19)
    random.seed(19)
    gen = torch.Generator().manual_seed(365)
    series = simulate_catchment(365 * 9, gen)
    model = InflowModel()
    for layer in model.layers:
        layer.compile()
    losses = train(model, series[: 365 * 7], 30, 16, gen)
    model.eval()
    crps, cover = [], []
    for at in (365 * 7 + 200, 365 * 7 + 330, 365 * 8 + 90):
        ens = forecast(model, series, at)
        obs = series[at : at + HORIZON, 0]
        crps.append(((ens - obs).abs().mean() - 0.5 * (ens[:, None] - ens[None]).abs().mean()).item())
        lo, hi = ens.quantile(0.1, dim=0), ens.quantile(0.9, dim=0)
        cover.append(((obs >= lo) & (obs <= hi)).float().mean().item())
    print(f"nll {losses[0]:.3f} -> {sum(losses[-5:]) / 5:.3f}")
    print("crps per issue date", [round(c, 3) for c in crps])
    print(f"80 % interval covers {100 * sum(cover) / len(cover):.0f} % of days")


if __name__ == "__main__":
    main()
