"""Forecast the number of free docks at bike-share stations with a small spatio-temporal graph network (STGCN)."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)

N_STATIONS = 100
HISTORY = 12
HORIZON = 3
BATCH = 16
STEPS = 80


def station_graph(n):
    """Gaussian-kernel adjacency on random station positions, as scaled Laplacian."""
    pos = torch.rand(n, 2) * 6.0
    d2 = torch.cdist(pos, pos) ** 2
    w = torch.exp(-d2 / 0.5)
    w = torch.where(w > 0.1, w, torch.zeros_like(w))
    w.fill_diagonal_(0)
    deg = w.sum(1).clamp_min(1e-6)
    lap = torch.eye(n) - w / torch.sqrt(deg[:, None] * deg[None, :])
    lam = torch.linalg.eigvalsh(lap)[-1]
    return pos, 2 * lap / lam - torch.eye(n)


def cheb_polynomials(lap, order):
    polys = [torch.eye(lap.shape[0]), lap]
    for _ in range(2, order):
        polys.append(2 * lap @ polys[-1] - polys[-2])
    return torch.stack(polys[:order])


def synth_docks(pos, hours):
    t = torch.arange(hours, dtype=torch.float32)
    phase = pos[:, 0] * 0.6
    commute = torch.sin(2 * torch.pi * t[:, None] / 24 + phase[None])
    weekly = 0.4 * torch.cos(2 * torch.pi * t[:, None] / 168 + 0.3 * pos[None, :, 1])
    noise = torch.zeros(hours, pos.shape[0])
    for i in range(1, hours):
        noise[i] = 0.8 * noise[i - 1] + 0.15 * torch.randn(pos.shape[0])
    return commute + weekly + noise


class TemporalGate(nn.Module):
    def __init__(self, c_in, c_out, k=3):
        super().__init__()
        self.conv = nn.Conv2d(c_in, 2 * c_out, (k, 1))
        self.align = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()
        self.k = k

    def forward(self, x):  # b c t n
        res = self.align(x)[:, :, self.k - 1 :]
        p, q = self.conv(x).chunk(2, dim=1)
        return (p + res) * torch.sigmoid(q)


class ChebConv(nn.Module):
    def __init__(self, c_in, c_out, polys):
        super().__init__()
        self.register_buffer("polys", polys)
        self.weight = nn.Parameter(torch.randn(polys.shape[0], c_in, c_out) * (c_in * polys.shape[0]) ** -0.5)
        self.bias = nn.Parameter(torch.zeros(c_out))

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)  # b t n c
        xs = torch.einsum("knm,btmc->kbtnc", self.polys, x)
        out = torch.einsum("kbtnc,kco->btno", xs, self.weight) + self.bias
        return out.permute(0, 3, 1, 2)


class STBlock(nn.Module):
    def __init__(self, c_in, c_mid, c_out, polys, n):
        super().__init__()
        self.t1 = TemporalGate(c_in, c_out)
        self.graph = ChebConv(c_out, c_mid, polys)
        self.t2 = TemporalGate(c_mid, c_out)
        self.norm = nn.LayerNorm([n, c_out])
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = self.t1(x)
        x = F.relu(self.graph(x))
        x = self.t2(x)
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.drop(x)


class STGCN(nn.Module):
    def __init__(self, polys, n):
        super().__init__()
        self.b1 = STBlock(1, 16, 48, polys, n)
        self.b2 = STBlock(48, 16, 48, polys, n)
        self.out = nn.Sequential(nn.Conv2d(48, 64, (HISTORY - 8, 1)), nn.ReLU(), nn.Conv2d(64, HORIZON, 1))

    def forward(self, x):
        h = self.b2(self.b1(x[:, None]))
        return self.out(h).squeeze(2)  # b horizon n


def sample(series, n_batch, lo, hi):
    start = torch.randint(lo, hi - HISTORY - HORIZON, (n_batch,))
    idx = start[:, None] + torch.arange(HISTORY + HORIZON)
    win = series[idx]
    return win[:, :HISTORY], win[:, HISTORY:]


def main():
    pos, lap = station_graph(N_STATIONS)
    series = synth_docks(pos, 24 * 7 * 10)
    split = int(series.shape[0] * 0.85)
    model = STGCN(cheb_polynomials(lap, 3), N_STATIONS)
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    t0 = time.perf_counter()
    for step in range(STEPS):
        x, y = sample(series, BATCH, 0, split)
        loss = F.smooth_l1_loss(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  huber {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        errs, naive = [], []
        for _ in range(10):
            x, y = sample(series, BATCH, split, series.shape[0])
            errs.append((net(x) - y).abs().mean((0, 2)))
            naive.append((x[:, -1:] - y).abs().mean((0, 2)))
    print("test MAE per hour", [round(v, 4) for v in torch.stack(errs).mean(0).tolist()])
    print("persistence MAE  ", [round(v, 4) for v in torch.stack(naive).mean(0).tolist()])
    print(f"{time.perf_counter() - t0:.1f} s")


if __name__ == "__main__":
    main()
