"""String-ensemble chorus (three BBD lines, two LFOs) as a streaming block effect.

Host-style processing: 128-frame stereo blocks at 48 kHz, state kept between
blocks.  Fractional delays by 4-point Hermite interpolation, tone by a short FIR.
"""

import math

import numpy as np
import torch

SR = 48_000
BLOCK = 128
SECONDS = 3
RING = 4096


class EnsembleChorus:
    def __init__(self, depth_ms=1.8, centre_ms=7.0, slow_hz=0.61, fast_hz=5.9, mix=0.55):
        self.depth = depth_ms * SR / 1000
        self.centre = centre_ms * SR / 1000
        self.slow_hz, self.fast_hz = slow_hz, fast_hz
        self.mix = mix
        self.ring = torch.zeros(2, RING)
        self.pos = 0
        self.slow_phase = 0.0
        self.fast_phase = 0.0
        self.offsets = torch.tensor([0.0, 2 * math.pi / 3, 4 * math.pi / 3])[:, None]
        self.pan = torch.tensor([[1.0, 0.6, 0.2], [0.2, 0.6, 1.0]]) / 1.8
        taps = torch.hann_window(17, periodic=False)
        self.fir = (taps / taps.sum()).view(1, 1, -1)
        self.tail = torch.zeros(2, 16)

    def tap(self, delay):
        """Read the mono ring at fractional delays [3, BLOCK]."""
        mono = self.ring.mean(0)
        at = (self.pos + torch.arange(BLOCK)) - delay
        base = torch.floor(at)
        fr = at - base
        i = base.long()
        xm, x0, x1, x2 = (mono[(i + k) % RING] for k in (-1, 0, 1, 2))
        c1 = 0.5 * (x1 - xm)
        c2 = xm - 2.5 * x0 + 2.0 * x1 - 0.5 * x2
        c3 = 0.5 * (x2 - xm) + 1.5 * (x0 - x1)
        return ((c3 * fr + c2) * fr + c1) * fr + x0

    @torch.compile
    def process(self, block):
        self.ring[:, self.pos : self.pos + BLOCK] = block
        n = torch.arange(BLOCK)
        slow = self.slow_phase + 2 * math.pi * self.slow_hz / SR * n
        fast = self.fast_phase + 2 * math.pi * self.fast_hz / SR * n
        lfo = 0.85 * torch.sin(slow + self.offsets) + 0.15 * torch.sin(fast + self.offsets)
        wet = self.pan @ self.tap(self.centre + self.depth * lfo)

        wet = torch.cat([self.tail, wet], dim=1)
        self.tail = wet[:, -16:].clone()
        wet = torch.nn.functional.conv1d(wet[:, None], self.fir)[:, 0]

        self.pos = (self.pos + BLOCK) % RING
        self.slow_phase = (self.slow_phase + 2 * math.pi * self.slow_hz * BLOCK / SR) % (2 * math.pi)
        self.fast_phase = (self.fast_phase + 2 * math.pi * self.fast_hz * BLOCK / SR) % (2 * math.pi)
        return torch.tanh((1 - self.mix) * block + self.mix * wet)


def string_pad():
    """Four-note saw chord with a slow swell, slightly different left and right."""
    t = np.arange(SR * SECONDS) / SR
    out = np.zeros((2, t.size), dtype=np.float32)
    for f, g in ((130.81, 1.0), (196.0, 0.7), (261.63, 0.6), (311.13, 0.6)):
        for ch, det in enumerate((0.9995, 1.0005)):
            for h in range(1, 9):
                out[ch] += (0.08 * g / h * np.sin(2 * np.pi * f * det * h * t)).astype(np.float32)
    swell = 0.5 - 0.5 * np.cos(2 * np.pi * np.minimum(t / 4.0, 0.5))
    return torch.from_numpy(out * swell.astype(np.float32))


def db(x):
    return 20 * math.log10(max(float(x), 1e-9))


@torch.no_grad()
def main():
    dry = string_pad()
    fx = EnsembleChorus()
    blocks = [fx.process(b) for b in dry.split(BLOCK, dim=1)]
    wet = torch.cat(blocks, dim=1)
    print(f"{len(blocks)} blocks of {BLOCK} frames, {wet.shape[1] / SR:.1f} s of audio")
    print(f"peak {db(wet.abs().max()):.2f} dBFS, rms {db(wet.pow(2).mean().sqrt()):.2f} dBFS")
    for name, x in (("dry", dry), ("wet", wet)):
        mid, side = x.mean(0), (x[0] - x[1]) / 2
        corr = torch.corrcoef(x)[0, 1]
        print(f"{name}: side/mid {db(side.norm() / mid.norm()):.2f} dB, L/R correlation {float(corr):.3f}")


if __name__ == "__main__":
    main()
