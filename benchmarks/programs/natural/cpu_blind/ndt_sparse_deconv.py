"""Sparse deconvolution of ultrasonic A-scans (thickness and delamination).

The reflectivity of each A-scan is recovered by FISTA with the measured pulse,
plate by plate as the scanner delivers them.
"""

import math
import time

import numpy as np
import torch
import torch.nn.functional as F

FS = 50e6


def pulse(n=65, f0=5e6, bw=0.55):
    t = (np.arange(n) - n // 2) / FS
    sigma = math.sqrt(2 * math.log(2)) / (math.pi * f0 * bw)
    p = np.cos(2 * np.pi * f0 * t + 0.6) * np.exp(-((t / sigma) ** 2))
    return torch.tensor(p / np.linalg.norm(p), dtype=torch.float32)


def scan_line(g, n_traces, n_samples, wavelet, noise=0.03):
    x = torch.zeros(n_traces, n_samples)
    back = 620 + (40 * torch.sin(torch.linspace(0, 3, n_traces))).long()
    rows = torch.arange(n_traces)
    x[rows, 90] = 1.0
    x[rows, back] = 0.45 + 0.1 * torch.rand(n_traces, generator=g)
    flaw = torch.rand(n_traces, generator=g) < 0.3
    depth = torch.randint(200, 560, (n_traces,), generator=g)
    x[rows[flaw], depth[flaw]] = -0.35 * (0.5 + torch.rand(int(flaw.sum()), generator=g))
    y = F.conv1d(x[:, None], wavelet.flip(0)[None, None], padding=len(wavelet) // 2)[:, 0]
    return x, y + noise * torch.randn(y.shape, generator=g)


class PulseOperator:
    def __init__(self, wavelet):
        self.fwd = wavelet.flip(0)[None, None]
        self.adj = wavelet[None, None]
        self.pad = len(wavelet) // 2
        spec = torch.fft.rfft(wavelet, 4096).abs()
        self.lipschitz = float(spec.max() ** 2)

    def forward(self, x):
        return F.conv1d(x.unsqueeze(1), self.fwd, padding=self.pad).squeeze(1)

    def adjoint(self, r):
        return F.conv1d(r.unsqueeze(1), self.adj, padding=self.pad).squeeze(1)


def soft(x, thr):
    return torch.sign(x) * torch.clamp(x.abs() - thr, min=0.0)


def fista(op, y, lam, max_iter=150, tol=2e-3):
    step = 1.0 / op.lipschitz
    lam_t = lam * op.adjoint(y).abs().amax(dim=1, keepdim=True)
    x = torch.zeros_like(y)
    z = x
    t = 1.0
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        grad = op.adjoint(op.forward(z) - y)
        x_new = soft(z - step * grad, step * lam_t)
        t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        z = x_new + ((t - 1.0) / t_new) * (x_new - x)
        change = torch.linalg.norm(x_new - x) / torch.linalg.norm(x_new).clamp(min=1e-12)
        x, t = x_new, t_new
        if change < tol:
            break
    return x, n_iter


def back_wall(x, start=150):
    mag = x[:, start:].abs()
    env = F.max_pool1d(mag[:, None], 5, stride=1, padding=2)[:, 0]
    return start + env.argmax(dim=1)


def main():
    g = torch.Generator().manual_seed(9)
    w = pulse()
    op = PulseOperator(w)
    solve = torch.compile(fista)
    lines = [scan_line(g, 32, 1024, w) for _ in range(10)]
    with torch.no_grad():
        for _, y in lines[:3]:
            solve(op, y, 0.08)
        times, iters, hits, total = [], [], 0, 0
        for rep in range(4):
            for x_true, y in lines:
                t0 = time.perf_counter()
                x, n = solve(op, y, 0.08)
                times.append(time.perf_counter() - t0)
                iters.append(n)
                truth = 150 + x_true[:, 150:].abs().argmax(dim=1)
                hits += int(((back_wall(x) - truth).abs() <= 3).sum())
                total += len(y)
    print(f"strongest echo within 3 samples: {100 * hits / total:.1f} %")
    print(f"iterations {min(iters)}-{max(iters)}, {1e3 * float(np.median(times)):.1f} ms per scan line")


if __name__ == "__main__":
    main()
