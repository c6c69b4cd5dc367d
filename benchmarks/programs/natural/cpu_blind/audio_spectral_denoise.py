"""Batch speech enhancement: a small mask estimator on STFT frames."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 16000
N_FFT = 512
HOP = 128
BATCH = 12
SECONDS = 2


class MaskNet(nn.Module):
    def __init__(self, bins, hidden=48):
        super().__init__()
        self.inp = nn.Conv1d(bins, hidden, 1)
        self.mid = nn.Conv1d(hidden, hidden, 3, padding=1, groups=4)
        self.out = nn.Conv1d(hidden, bins, 1)

    def forward(self, logmag):
        h = F.silu(self.inp(logmag))
        h = h + F.silu(self.mid(h))
        return torch.sigmoid(self.out(h))


class SpectralDenoiser(nn.Module):
    def __init__(self, n_fft=N_FFT, hop=HOP, floor=0.05):
        super().__init__()
        self.n_fft = n_fft
        self.hop = hop
        self.floor = floor
        self.bins = n_fft // 2 + 1
        self.register_buffer("window", torch.hann_window(n_fft))
        self.mask = MaskNet(self.bins)
        freqs = torch.linspace(0.0, SAMPLE_RATE / 2, self.bins)
        delay = 2 * math.pi * freqs / SAMPLE_RATE * 1.5
        self.register_buffer("align", torch.polar(torch.ones_like(delay), delay))

    def forward(self, wav):
        length = wav.shape[-1]
        spec = torch.stft(
            wav,
            self.n_fft,
            self.hop,
            window=self.window,
            center=True,
            return_complex=True,
        )
        spec = spec * self.align[:, None]
        mag = spec.abs()
        phase = spec.angle()
        logmag = torch.log1p(mag)
        norm = logmag - logmag.mean(dim=-1, keepdim=True)
        gain = self.mask(norm).clamp_min(self.floor)
        clean = torch.polar(mag * gain, phase)
        clean = clean * self.align.conj()[:, None]
        return torch.istft(
            clean,
            self.n_fft,
            self.hop,
            window=self.window,
            center=True,
            length=length,
        )


def make_batch(batch, seconds, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(seconds * SAMPLE_RATE) / SAMPLE_RATE
    f0 = 110 + 120 * torch.rand(batch, 1, generator=g)
    voice = sum(torch.sin(2 * math.pi * f0 * k * t) / k for k in range(1, 6))
    noise = 0.3 * torch.randn(batch, t.numel(), generator=g)
    return voice * 0.2 + noise


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = SpectralDenoiser().eval()
    model = torch.compile(model)
    batches = [make_batch(BATCH, SECONDS, s) for s in range(3)]

    with torch.inference_mode():
        for i in range(4):
            model(batches[i % 3])

        iters = 30
        total = 0.0
        start = time.perf_counter()
        for i in range(iters):
            out = model(batches[i % 3])
            total += out.square().mean().item()
        elapsed = time.perf_counter() - start

    print(f"time per batch: {elapsed / iters * 1e3:.3f} ms")
    print(f"checksum: {total / iters:.6f}")


if __name__ == "__main__":
    main()
