"""Time-series matrix profile by z-normalised sliding dot products through an FFT."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def matrix_profile(series, queries, m):
    n = series.shape[-1]
    size = 2 ** (n + m).bit_length()
    fs = torch.fft.rfft(series, size)
    fq = torch.fft.rfft(queries.flip(-1), size)
    dots = torch.fft.irfft(fs * fq, size)[..., m - 1 : n]
    zero = torch.zeros(1, device=series.device)
    c1, c2 = torch.cat([zero, series.cumsum(0)]), torch.cat([zero, (series**2).cumsum(0)])
    mean = (c1[m:] - c1[:-m]) / m
    std = ((c2[m:] - c2[:-m]) / m - mean**2).clamp(min=1e-6).sqrt()
    qm, qs = queries.mean(-1, keepdim=True), queries.std(-1, unbiased=False, keepdim=True).clamp(min=1e-6)
    corr = (dots - m * mean * qm) / (m * std * qs)
    dist = (2 * m * (1 - corr.clamp(-1, 1))).sqrt()
    best, index = dist.topk(5, dim=-1, largest=False)
    return best, index


def build(device, compiled):
    torch.manual_seed(0)
    n, m = pick(8192, 256), pick(64, 16)
    series = torch.randn(n, device=device).cumsum(0) * 0.1
    queries = torch.stack([series[i : i + m] for i in range(0, n - m, n // 16)])
    run = torch.compile(matrix_profile, backend=BACKEND) if compiled else matrix_profile

    def step():
        return run(series, queries, m)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
