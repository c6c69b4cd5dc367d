"""Time-stretch podcast audio with WSOLA (waveform similarity overlap-add)."""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SR = 16_000


def fake_speech(seconds, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * SR)) / SR
    f0 = 120 + 25 * np.sin(2 * np.pi * 0.7 * t + rng.uniform(0, 6)) + rng.normal(0, 2)
    phase = 2 * np.pi * np.cumsum(f0) / SR
    x = sum(np.sin(k * phase) / k for k in range(1, 14))
    env = 0.5 * (1 + np.sign(np.sin(2 * np.pi * 2.3 * t))) * 0.8 + 0.2
    x = x * env + 0.02 * rng.standard_normal(t.size)
    return torch.from_numpy((0.3 * x / np.abs(x).max()).astype(np.float32))


class Wsola(nn.Module):
    def __init__(self, frame=1024, tolerance=256):
        super().__init__()
        self.frame = frame
        self.hop = frame // 2
        self.tol = tolerance
        self.register_buffer("window", torch.hann_window(frame))

    def best_shift(self, region, template):
        """Lag in `region` whose segment correlates best with `template`."""
        num = F.conv1d(region[None, None], template[None, None])[0, 0]
        energy = region.square().cumsum(0)
        energy = torch.cat([energy[self.frame - 1 :][:1], energy[self.frame :] - energy[: -self.frame]])
        score = num / torch.sqrt(energy + 1e-6)
        return score.argmax()

    def forward(self, x, rate):
        pad = self.frame + self.tol
        x = F.pad(x, (self.tol, pad * 2))
        n_out = int((x.numel() - 3 * pad) / rate)
        out = x.new_zeros(n_out + 2 * self.frame)
        pos = self.tol
        out[: self.frame] += self.window * x[pos : pos + self.frame]
        for k in range(1, n_out // self.hop):
            template = x[pos + self.hop : pos + self.hop + self.frame]
            centre = int(k * self.hop * rate) + self.tol
            region = x[centre - self.tol : centre + self.tol + self.frame]
            lag = self.best_shift(region, template).item()
            pos = centre - self.tol + lag
            seg = x[pos : pos + self.frame]
            out[k * self.hop : k * self.hop + self.frame] += self.window * seg
        return out[:n_out]


def rms(x):
    return x.square().mean().sqrt().item()


def main():
    torch.set_num_threads(2)
    stretch = torch.compile(Wsola())
    clips = [fake_speech(6.0, s) for s in range(6)]

    with torch.no_grad():
        for rate in (1.5, 0.8):
            stretch(clips[0], rate)

        for rate in (1.5, 0.8):
            t0 = time.perf_counter()
            levels = []
            for clip in clips:
                y = stretch(clip, rate)
                levels.append(rms(y) / rms(clip))
            dt = time.perf_counter() - t0
            print(
                f"x{rate}: {len(clips)} clips, level ratio {np.mean(levels):.3f}, "
                f"{1e3 * dt / len(clips):.1f} ms per clip "
                f"({6.0 * len(clips) / dt:.0f}x real time)"
            )


if __name__ == "__main__":
    main()
