"""Offline rendering of dry stems through a feedback-delay-network reverb.

Sixteen delay lines, Householder feedback, a short FIR damping filter per line
and stereo output taps.  Audio is processed in blocks as in the plug-in, so the
result matches the real-time version sample for sample.
"""

import argparse
import math
import time

import torch
from torch import nn

SR = 48_000
BLOCK = 512
RING = 8192
DELAYS = [1031, 1171, 1327, 1493, 1657, 1823, 1999, 2179, 2371, 2557, 2749, 2953, 3163, 3373, 3593, 3821]


class FDNReverb(nn.Module):
    def __init__(self, stems, t60=1.8, damping=0.35, wet=0.3):
        super().__init__()
        n = len(DELAYS)
        delays = torch.tensor(DELAYS)
        self.register_buffer("delays", delays)
        self.register_buffer("gain", 10 ** (-3.0 * delays / SR / t60))
        self.register_buffer("feedback", torch.eye(n) - 2.0 / n * torch.ones(n, n))
        g = torch.Generator().manual_seed(0)
        pan = torch.rand(n, generator=g) * math.pi / 2
        self.register_buffer("out_taps", torch.stack([pan.cos(), pan.sin()]) / math.sqrt(n))
        self.register_buffer("in_taps", torch.where(torch.arange(n) % 2 == 0, 1.0, -1.0) / math.sqrt(n))
        self.register_buffer("ring", torch.zeros(stems, n, RING))
        self.damping = damping
        self.wet = wet
        self.pos = 0

    def reset(self):
        self.ring.zero_()
        self.pos = 0

    def read(self, t, extra):
        """Samples of every line, `delay + extra` in the past."""
        idx = (t - self.delays[:, None] - extra) % RING  # (lines, block)
        idx = idx.expand(self.ring.shape[0], -1, -1)
        return torch.gather(self.ring, 2, idx)

    def forward(self, block):
        """block: (stems, BLOCK) dry mono -> (stems, 2, BLOCK) wet/dry stereo."""
        t = self.pos + torch.arange(BLOCK)

        taps = self.read(t, 0)
        d = self.damping
        damped = (1 - d) * taps + d * 0.5 * (self.read(t, 1) + self.read(t, 2))
        damped = damped * self.gain[:, None]

        mixed = torch.einsum("ij,sjt->sit", self.feedback, damped)
        self.ring[:, :, t % RING] = mixed + self.in_taps[:, None] * block[:, None, :]

        wet = torch.einsum("cj,sjt->sct", self.out_taps, taps)
        self.pos = (self.pos + BLOCK) % RING
        return (1 - self.wet) * block[:, None, :] + self.wet * wet


def dry_stems(stems, seconds, gen):
    """Percussive bursts with a decaying tonal part, one pattern per stem."""
    n = int(seconds * SR) // BLOCK * BLOCK
    t = torch.arange(n) / SR
    out = torch.zeros(stems, n)
    for s in range(stems):
        f0 = 90 * 2 ** (torch.randint(0, 36, (1,), generator=gen).item() / 12)
        period = 0.25 + 0.5 * torch.rand(1, generator=gen).item()
        env = torch.exp(-18 * (t % period))
        noise = torch.randn(n, generator=gen) * torch.exp(-120 * (t % period))
        out[s] = 0.5 * env * torch.sin(2 * math.pi * f0 * t) + 0.2 * noise
    return out


def energy_decay_db(x, window=4800):
    e = x.pow(2).mean(dim=(0, 1)).unfold(0, window, window).mean(-1)
    return 10 * torch.log10(e + 1e-12)


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--stems", type=int, default=4)
    ap.add_argument("--seconds", type=float, default=12.0)
    args = ap.parse_args()
    gen = torch.Generator().manual_seed(3)

    dry = dry_stems(args.stems, args.seconds, gen)
    tail = torch.zeros(args.stems, SR // BLOCK * BLOCK)
    blocks = torch.cat([dry, tail], dim=1).split(BLOCK, dim=1)

    reverb = FDNReverb(args.stems)
    process = torch.compile(reverb)

    t0 = time.perf_counter()
    for b in blocks[:40]:
        process(b)
    print(f"warm-up {time.perf_counter() - t0:.2f} s")
    reverb.reset()

    out = []
    t0 = time.perf_counter()
    for b in blocks:
        out.append(process(b))
    dt = time.perf_counter() - t0

    wet = torch.cat(out, dim=-1)
    decay = energy_decay_db(wet)
    audio_s = wet.shape[-1] / SR
    print(
        f"peak {wet.abs().max():.3f}, rms {wet.pow(2).mean().sqrt():.4f}, "
        f"tail drop over the last second {decay[-11] - decay[-1]:.1f} dB"
    )
    print(
        f"{args.stems} stems x {audio_s:.1f} s rendered in {dt:.2f} s: "
        f"{1e3 * dt / len(blocks):.3f} ms per block, {audio_s / dt:.0f}x real time"
    )


if __name__ == "__main__":
    main()
