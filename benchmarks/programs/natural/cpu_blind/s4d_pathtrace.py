"""Diagonal state-space classifier (S4D) on long synthetic pen traces.

Trains with gradient accumulation, warmup schedule, clipping and an EMA copy
that is used for evaluation.
"""

import copy
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class S4DKernel(nn.Module):
    def __init__(self, d_model, n_state=64, dt_min=1e-3, dt_max=1e-1):
        super().__init__()
        h = n_state // 2
        log_dt = torch.rand(d_model) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)
        self.log_dt = nn.Parameter(log_dt)
        self.C = nn.Parameter(torch.randn(d_model, h, 2) * 0.7)
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(d_model, h)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(h).float().repeat(d_model, 1))

    def forward(self, L):
        dt = torch.exp(self.log_dt)
        C = torch.view_as_complex(self.C)
        A = -torch.exp(self.log_A_real) + 1j * self.A_imag
        dtA = A * dt.unsqueeze(-1)
        K = dtA.unsqueeze(-1) * torch.arange(L, device=A.device)
        C = C * (torch.exp(dtA) - 1.0) / A
        return 2 * (C.unsqueeze(-1) * torch.exp(K)).sum(1).real


class S4DBlock(nn.Module):
    def __init__(self, d_model, n_state):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.kernel = S4DKernel(d_model, n_state)
        self.D = nn.Parameter(torch.randn(d_model))
        self.out = nn.Linear(d_model, 2 * d_model)

    def forward(self, x):
        u = self.norm(x).transpose(1, 2)
        L = u.size(-1)
        k = self.kernel(L)
        k_f = torch.fft.rfft(k, n=2 * L)
        u_f = torch.fft.rfft(u, n=2 * L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L]
        y = F.gelu(y + u * self.D.unsqueeze(-1))
        return x + F.glu(self.out(y.transpose(1, 2)), dim=-1)


class S4DClassifier(nn.Module):
    def __init__(self, d_in=3, d_model=64, n_state=64, depth=2, n_classes=5):
        super().__init__()
        self.encoder = nn.Linear(d_in, d_model)
        self.blocks = nn.Sequential(*[S4DBlock(d_model, n_state) for _ in range(depth)])
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, x):
        return self.head(self.blocks(self.encoder(x)).mean(1))


def make_traces(n, L, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 5, (n,), generator=g)
    t = torch.linspace(0, 1, L)
    f = (2 + 3 * y.float()).unsqueeze(1)
    ph = torch.rand(n, 1, generator=g) * 6.28
    px = torch.cos(6.28 * f * t + ph) + 0.3 * torch.randn(n, L, generator=g)
    py = torch.sin(6.28 * (f + 1) * t + ph) + 0.3 * torch.randn(n, L, generator=g)
    pressure = torch.rand(n, L, generator=g)
    return torch.stack([px, py, pressure], -1), y


def main():
    torch.manual_seed(7)
    torch.set_num_threads(2)
    L, micro, accum, updates = 1024, 4, 2, 12
    x_tr, y_tr = make_traces(96, L, 0)
    x_va, y_va = make_traces(16, L, 1)

    net = S4DClassifier()
    ema = copy.deepcopy(net).eval()
    model = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 4))

    t0, pos = time.perf_counter(), 0
    for update in range(updates):
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(accum):
            xb, yb = x_tr[pos : pos + micro], y_tr[pos : pos + micro]
            pos = (pos + micro) % len(x_tr)
            loss = F.cross_entropy(model(xb), yb, label_smoothing=0.05) / accum
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        warm.step()
        with torch.no_grad():
            for pe, p in zip(ema.parameters(), net.parameters()):
                pe.lerp_(p, 0.1)
        if (update + 1) % 6 == 0:
            with torch.no_grad():
                acc = (ema(x_va).argmax(-1) == y_va).float().mean().item()
            el = time.perf_counter() - t0
            print(f"update {update + 1:2d} loss {total:.4f} ema acc {acc:.3f} elapsed {el:.2f}s")


if __name__ == "__main__":
    main()
