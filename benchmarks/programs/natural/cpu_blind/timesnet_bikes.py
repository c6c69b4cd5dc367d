"""TimesNet (Wu et al., ICLR 2023) on hourly bike-share pick-ups at 12 docks."""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

SEQ_LEN, PRED_LEN, N_DOCKS = 96, 24, 12
BATCH, STEPS = 24, 220


def fft_for_period(x, k):
    xf = torch.fft.rfft(x, dim=1)
    frequency = xf.abs().mean(0).mean(-1)
    frequency[0] = 0
    _, top = torch.topk(frequency, k)
    top = top.detach().cpu()
    period = [x.shape[1] // t for t in top.tolist()]
    return period, xf.abs().mean(-1)[:, top]


class InceptionBlock(nn.Module):
    def __init__(self, c_in, c_out, num_kernels=3):
        super().__init__()
        self.kernels = nn.ModuleList(
            nn.Conv2d(c_in, c_out, kernel_size=2 * i + 1, padding=i) for i in range(num_kernels)
        )
        for m in self.kernels:
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return torch.stack([conv(x) for conv in self.kernels], dim=-1).mean(-1)


class TimesBlock(nn.Module):
    def __init__(self, d_model, d_ff, top_k):
        super().__init__()
        self.k = top_k
        self.length = SEQ_LEN + PRED_LEN
        self.conv = nn.Sequential(InceptionBlock(d_model, d_ff), nn.GELU(), InceptionBlock(d_ff, d_model))

    def forward(self, x):
        B, T, N = x.shape
        periods, weight = fft_for_period(x, self.k)
        res = []
        for period in periods:
            if self.length % period != 0:
                length = (self.length // period + 1) * period
                out = torch.cat([x, x.new_zeros(B, length - self.length, N)], dim=1)
            else:
                length, out = self.length, x
            out = out.reshape(B, length // period, period, N).permute(0, 3, 1, 2).contiguous()
            out = self.conv(out)
            out = out.permute(0, 2, 3, 1).reshape(B, -1, N)
            res.append(out[:, : self.length, :])
        res = torch.stack(res, dim=-1)
        weight = F.softmax(weight, dim=1)[:, None, None, :].expand(-1, T, N, -1)
        return (res * weight).sum(-1) + x


class DataEmbedding(nn.Module):
    def __init__(self, c_in, d_model, dropout=0.1):
        super().__init__()
        self.token = nn.Conv1d(c_in, d_model, 3, padding=1, padding_mode="circular", bias=False)
        self.hour = nn.Embedding(24, d_model)
        self.weekday = nn.Embedding(7, d_model)
        pos = torch.arange(SEQ_LEN).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe = torch.zeros(SEQ_LEN, d_model)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, stamp):
        tok = self.token(x.transpose(1, 2)).transpose(1, 2)
        return self.dropout(tok + self.pe + self.hour(stamp[..., 0]) + self.weekday(stamp[..., 1]))


class TimesNet(nn.Module):
    def __init__(self, d_model=32, d_ff=32, layers=2, top_k=2):
        super().__init__()
        self.embed = DataEmbedding(N_DOCKS, d_model)
        self.extend = nn.Linear(SEQ_LEN, SEQ_LEN + PRED_LEN)
        self.blocks = nn.ModuleList(TimesBlock(d_model, d_ff, top_k) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, N_DOCKS)

    def forward(self, x, stamp):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        h = self.embed((x - mean) / std, stamp)
        h = self.extend(h.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            h = self.norm(block(h))
        return (self.head(h) * std + mean)[:, -PRED_LEN:]


def make_series(hours, gen):
    t = torch.arange(hours)
    day, week = 2 * math.pi * t / 24, 2 * math.pi * t / 168
    phase = torch.rand(N_DOCKS, generator=gen) * 0.8
    commute = torch.exp(3 * torch.cos(2 * day[:, None] - phase)) / 12
    leisure = (1 + torch.cos(day[:, None] - 3.9)) * (1 + 0.6 * torch.cos(week[:, None]))
    mix = torch.rand(N_DOCKS, generator=gen)
    weather = torch.zeros(hours)
    shock = torch.randn(hours, generator=gen)
    for i in range(1, hours):
        weather[i] = 0.97 * weather[i - 1] + 0.2 * shock[i]
    rate = 6 * (mix * commute + (1 - mix) * leisure) * torch.exp(0.3 * weather[:, None])
    counts = torch.poisson(rate, generator=gen)
    return torch.log1p(counts), torch.stack([t % 24, t // 24 % 7], dim=-1)


def main():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    series, stamps = make_series(24 * 365, gen)
    split = 24 * 300
    model = TimesNet()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    t0 = time.perf_counter()
    for step in range(1, STEPS + 1):
        at = torch.randint(0, split - SEQ_LEN - PRED_LEN, (BATCH,), generator=gen)
        rows = at[:, None] + torch.arange(SEQ_LEN + PRED_LEN)
        window = series[rows]
        pred = net(window[:, :SEQ_LEN], stamps[rows[:, :SEQ_LEN]])
        loss = F.mse_loss(pred, window[:, SEQ_LEN:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            dt = (time.perf_counter() - t0) / 20
            print(f"step {step:4d}  mse {loss.item():.4f}  {1e3 * dt:.1f} ms/step")
            t0 = time.perf_counter()


if __name__ == "__main__":
    main()
