"""Day-ahead load forecast for the substations with an Autoformer
(decomposition blocks + auto-correlation), trained on the utility's hourly data.
Here: synthetic feeders with daily and weekly seasonality.
"""

import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class AutoCorrelation(nn.Module):
    def __init__(self, factor=2):
        super().__init__()
        self.factor = factor

    def time_delay_agg_training(self, values, corr):
        length = values.shape[3]
        top_k = int(self.factor * math.log(length))
        mean_value = torch.mean(torch.mean(corr, dim=1), dim=1)
        index = torch.topk(torch.mean(mean_value, dim=0), top_k, dim=-1)[1]
        weights = torch.stack([mean_value[:, index[i]] for i in range(top_k)], dim=-1)
        tmp_corr = torch.softmax(weights, dim=-1)
        delays_agg = torch.zeros_like(values).float()
        for i in range(top_k):
            pattern = torch.roll(values, -int(index[i]), -1)
            delays_agg = delays_agg + pattern * tmp_corr[:, i].view(-1, 1, 1, 1)
        return delays_agg

    def forward(self, queries, keys, values):
        B, L, H, E = queries.shape
        S = values.shape[1]
        if L > S:
            zeros = torch.zeros_like(queries[:, : (L - S)])
            values = torch.cat([values, zeros], dim=1)
            keys = torch.cat([keys, zeros], dim=1)
        else:
            values, keys = values[:, :L], keys[:, :L]
        q_fft = torch.fft.rfft(queries.permute(0, 2, 3, 1).contiguous(), dim=-1)
        k_fft = torch.fft.rfft(keys.permute(0, 2, 3, 1).contiguous(), dim=-1)
        corr = torch.fft.irfft(q_fft * torch.conj(k_fft), n=L, dim=-1)
        V = self.time_delay_agg_training(values.permute(0, 2, 3, 1).contiguous(), corr)
        return V.permute(0, 3, 1, 2).contiguous()


class AutoCorrelationLayer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.inner = AutoCorrelation()
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values):
        B, L, _ = queries.shape
        S, H = keys.shape[1], self.n_heads
        q = self.q(queries).view(B, L, H, -1)
        k = self.k(keys).view(B, S, H, -1)
        v = self.v(values).view(B, S, H, -1)
        return self.out(self.inner(q, k, v).view(B, L, -1))


class SeriesDecomp(nn.Module):
    def __init__(self, kernel_size=25):
        super().__init__()
        self.kernel_size = kernel_size
        self.avg = nn.AvgPool1d(kernel_size=kernel_size, stride=1, padding=0)

    def forward(self, x):
        front = x[:, 0:1, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        end = x[:, -1:, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        trend = self.avg(torch.cat([front, x, end], dim=1).permute(0, 2, 1)).permute(0, 2, 1)
        return x - trend, trend


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = AutoCorrelationLayer(d_model, n_heads)
        self.conv1 = nn.Conv1d(d_model, d_ff, kernel_size=1, bias=False)
        self.conv2 = nn.Conv1d(d_ff, d_model, kernel_size=1, bias=False)
        self.decomp1, self.decomp2 = SeriesDecomp(), SeriesDecomp()

    def forward(self, x):
        x, _ = self.decomp1(x + self.attention(x, x, x))
        y = F.gelu(self.conv1(x.transpose(-1, 1)))
        y = self.conv2(y).transpose(-1, 1)
        res, _ = self.decomp2(x + y)
        return res


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, c_out):
        super().__init__()
        self.self_attention = AutoCorrelationLayer(d_model, n_heads)
        self.cross_attention = AutoCorrelationLayer(d_model, n_heads)
        self.conv1 = nn.Conv1d(d_model, d_ff, kernel_size=1, bias=False)
        self.conv2 = nn.Conv1d(d_ff, d_model, kernel_size=1, bias=False)
        self.decomp1, self.decomp2, self.decomp3 = (SeriesDecomp() for _ in range(3))
        self.projection = nn.Conv1d(d_model, c_out, 3, padding=1, padding_mode="circular", bias=False)

    def forward(self, x, cross):
        x, t1 = self.decomp1(x + self.self_attention(x, x, x))
        x, t2 = self.decomp2(x + self.cross_attention(x, cross, cross))
        y = F.gelu(self.conv1(x.transpose(-1, 1)))
        y = self.conv2(y).transpose(-1, 1)
        x, t3 = self.decomp3(x + y)
        trend = self.projection((t1 + t2 + t3).permute(0, 2, 1)).transpose(1, 2)
        return x, trend


class Autoformer(nn.Module):
    def __init__(self, c_in, d_model=64, n_heads=8, d_ff=128, label_len=48, pred_len=24):
        super().__init__()
        self.label_len, self.pred_len = label_len, pred_len
        self.decomp = SeriesDecomp()
        self.enc_embed = nn.Linear(c_in + 4, d_model)
        self.dec_embed = nn.Linear(c_in + 4, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, n_heads, d_ff) for _ in range(2))
        self.decoder = DecoderLayer(d_model, n_heads, d_ff, c_in)
        self.enc_norm, self.dec_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, c_in)

    def forward(self, x, x_mark, y_mark):
        mean = x.mean(1, keepdim=True).repeat(1, self.pred_len, 1)
        zeros = torch.zeros(x.shape[0], self.pred_len, x.shape[2])
        seasonal, trend = self.decomp(x)
        trend = torch.cat([trend[:, -self.label_len :], mean], dim=1)
        seasonal = torch.cat([seasonal[:, -self.label_len :], zeros], dim=1)
        enc = self.enc_embed(torch.cat([x, x_mark], -1))
        for layer in self.encoder:
            enc = layer(enc)
        enc = self.enc_norm(enc)
        dec = self.dec_embed(torch.cat([seasonal, y_mark], -1))
        dec, residual = self.decoder(dec, enc)
        dec = self.head(self.dec_norm(dec))
        return (trend + residual + dec)[:, -self.pred_len :]


def synthetic_load(hours=6000, feeders=12, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    phase = rng.uniform(0, 2, feeders)[None]
    load = np.sin(2 * np.pi * t / 24 + phase) + 0.4 * np.sin(2 * np.pi * t / 168 + 2 * phase)
    load += 0.15 * rng.standard_normal((hours, feeders)) + 0.0002 * t
    mark = np.concatenate([f(2 * np.pi * t / p) for p in (24, 168) for f in (np.sin, np.cos)], 1)
    return torch.from_numpy(load).float(), torch.from_numpy(mark).float()


def main():
    steps, batch = 60, 32
    torch.manual_seed(0)
    load, mark = synthetic_load()
    seq, lab, pred = 96, 48, 24
    net = Autoformer(load.shape[1])
    model = torch.compile(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    rng = np.random.default_rng(1)
    times, losses = [], []
    for step in range(steps):
        starts = rng.integers(0, len(load) - seq - pred, batch)
        x = torch.stack([load[s : s + seq] for s in starts])
        xm = torch.stack([mark[s : s + seq] for s in starts])
        ym = torch.stack([mark[s + seq - lab : s + seq + pred] for s in starts])
        y = torch.stack([load[s + seq : s + seq + pred] for s in starts])
        t0 = time.perf_counter()
        loss = F.mse_loss(model(x, xm, ym), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        losses.append(loss.item())
    print(f"mse first {losses[0]:.3f} last {np.mean(losses[-5:]):.3f}")
    print(f"{np.median(times[10:]) * 1e3:.1f} ms/step")


if __name__ == "__main__":
    main()
