"""Conference bridge echo cancellation: partitioned block frequency-domain adaptive filter (PBFDAF).

Every line of the bridge has its own room response. For each block of 128 samples the far-end signal is
filtered by the current estimate, subtracted from the microphone, and the estimate is updated with a
normalised, gradient-constrained step. The report gives echo return loss enhancement (ERLE) over time.
"""

import logging
import time
from dataclasses import dataclass

import torch
import torch.nn as nn

log = logging.getLogger("aec")


@dataclass
class Config:
    lines: int = 160
    block: int = 128
    partitions: int = 16
    seconds: float = 5.0
    rate: int = 8000
    step: float = 0.35
    forget: float = 0.9
    noise_db: float = -45.0
    seed: int = 21


def coloured_speechlike(cfg, n, gen):
    """AR(2)-ish coloured noise with syllable-rate amplitude modulation, built in the frequency domain."""
    white = torch.randn(cfg.lines, n, generator=gen)
    f = torch.fft.rfftfreq(n, 1.0 / cfg.rate)
    shape = 1.0 / (1.0 + (f / 900.0) ** 2) * (f > 80)
    x = torch.fft.irfft(torch.fft.rfft(white) * shape, n)
    t = torch.arange(n) / cfg.rate
    rate = 2.5 + 2.0 * torch.rand(cfg.lines, 1, generator=gen)
    phase = 6.28 * torch.rand(cfg.lines, 1, generator=gen)
    env = 0.25 + torch.clamp(torch.sin(6.2832 * rate * t + phase), min=0.0)
    x = x * env
    return x / x.std(dim=1, keepdim=True)


def rooms(cfg, gen):
    taps = cfg.block * (cfg.partitions - 1)
    t = torch.arange(taps) / cfg.rate
    rt = 0.03 + 0.05 * torch.rand(cfg.lines, 1, generator=gen)
    h = torch.randn(cfg.lines, taps, generator=gen) * torch.exp(-6.9 * t / rt)
    return 0.6 * h / h.norm(dim=1, keepdim=True)


def convolve(x, h):
    n = x.shape[1] + h.shape[1] - 1
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(h, n), n)[:, : x.shape[1]]


class Canceller(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.block = cfg.block
        self.mu = cfg.step
        self.forget = cfg.forget
        bins = cfg.block + 1
        self.register_buffer("spectra", torch.zeros(cfg.lines, cfg.partitions, bins, dtype=torch.complex64))
        self.register_buffer("weights", torch.zeros(cfg.lines, cfg.partitions, bins, dtype=torch.complex64))
        self.register_buffer("power", torch.ones(cfg.lines, bins))
        self.register_buffer("previous", torch.zeros(cfg.lines, cfg.block))

    def forward(self, far, mic):
        n = self.block
        newest = torch.fft.rfft(torch.cat([self.previous, far], dim=1))
        spectra = torch.cat([newest[:, None], self.spectra[:, :-1]], dim=1)

        estimate = torch.fft.irfft((spectra * self.weights).sum(1), 2 * n)[:, n:]
        err = mic - estimate
        err_spec = torch.fft.rfft(torch.cat([torch.zeros_like(err), err], dim=1))

        energy = spectra.abs().square().sum(1)
        power = self.forget * self.power + (1 - self.forget) * energy
        gain = self.mu / (torch.maximum(power, energy) + 1e-2 * power.mean(1, keepdim=True) + 1e-6)
        grad = spectra.conj() * (gain * err_spec)[:, None]

        # keep only the causal first half of every partition
        taps = torch.fft.irfft(grad, 2 * n)
        taps = torch.cat([taps[..., :n], torch.zeros_like(taps[..., n:])], dim=-1)
        self.weights = self.weights + torch.fft.rfft(taps)

        self.spectra = spectra
        self.power = power
        self.previous = far.clone()
        return err


@torch.no_grad()
def run(cfg):
    gen = torch.Generator().manual_seed(cfg.seed)
    n = int(cfg.seconds * cfg.rate) // cfg.block * cfg.block
    far = coloured_speechlike(cfg, n, gen)
    echo = convolve(far, rooms(cfg, gen))
    mic = echo + 10 ** (cfg.noise_db / 20) * torch.randn(echo.shape, generator=gen)

    canceller = torch.compile(Canceller(cfg))
    blocks = n // cfg.block
    residual = torch.empty_like(mic)
    t0 = time.perf_counter()
    for b in range(blocks):
        s = slice(b * cfg.block, (b + 1) * cfg.block)
        residual[:, s] = canceller(far[:, s], mic[:, s])
        if (b + 1) % 50 == 0:
            dt = time.perf_counter() - t0
            audio = (b + 1) * cfg.block / cfg.rate
            log.info(
                "block %4d/%d  %.2f s of audio in %.2f s (x%.2f real time for %d lines)",
                b + 1,
                blocks,
                audio,
                dt,
                audio / dt,
                cfg.lines,
            )
    return mic, residual


def report(cfg, mic, residual):
    half = cfg.rate // 2
    print(" from s   ERLE mean   worst    best  (dB)")
    means = []
    for k in range(mic.shape[1] // half):
        s = slice(k * half, (k + 1) * half)
        erle = 10 * torch.log10(mic[:, s].square().mean(1) / residual[:, s].square().mean(1))
        means.append(erle.mean().item())
        print(f"{k * 0.5:7.1f}   {erle.mean():9.2f}  {erle.min():6.2f}  {erle.max():6.2f}")
    return means


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    cfg = Config()
    mic, residual = run(cfg)
    means = report(cfg, mic, residual)
    assert torch.isfinite(residual).all() and means[-1] > means[0]


if __name__ == "__main__":
    main()
