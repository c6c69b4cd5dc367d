"""Look-ahead true-peak limiter for a mastering chain.

A quarter of a second of stereo at a time: 4x oversampled peak detection, look-ahead hold, smoothed gain,
gentle saturation. Blocks overlap by the look-ahead so that they join without clicks.
"""

import math
import time

import torch
import torch.nn.functional as F

SR = 48_000
BLOCK = SR // 4
LOOKAHEAD_MS = 5.0
RELEASE_MS = 60.0
CEILING_DB = -1.0
BLOCKS = 50


def windowed_sinc(taps, phases):
    """Polyphase bank for the true-peak meter (ITU BS.1770 style), [phases, 1, taps]."""
    n = torch.arange(taps * phases) - (taps * phases - 1) / 2
    h = torch.special.sinc(n / phases) * torch.hann_window(taps * phases, periodic=False)
    h = h.reshape(taps, phases).t().contiguous()
    return (h / h.sum(1, keepdim=True)).unsqueeze(1)


def smoothing_kernel(length):
    w = torch.hann_window(length, periodic=False)
    return (w / w.sum()).view(1, 1, -1)


def db_to_lin(db):
    return 10.0 ** (db / 20.0)


def true_peak(x, bank):
    """x [C, T] -> linked peak envelope [1, T]."""
    taps = bank.shape[-1]
    padded = F.pad(x.unsqueeze(1), (taps // 2, taps - taps // 2 - 1))
    over = F.conv1d(padded, bank)  # [C, phases, T]
    peak = over.abs().amax(dim=1)
    peak = torch.maximum(peak, x.abs())
    return peak.amax(dim=0, keepdim=True)


def hold(env, n):
    return F.max_pool1d(F.pad(env, (n // 2, n // 2)), kernel_size=n, stride=1)


def soft_clip(x, drive):
    return torch.tanh(x * drive) / math.tanh(drive)


def limit_block(x, bank, kernel, release_kernel, ceiling, drive):
    look = kernel.shape[-1]
    peak = true_peak(x, bank)
    held = hold(peak, look)
    gain_db = torch.clamp(20.0 * torch.log10(ceiling / held.clamp(min=1e-6)), max=0.0)

    # fast path follows the attack, slow path keeps the gain down over the release
    fast = F.conv1d(F.pad(gain_db.unsqueeze(0), (look // 2, look // 2), mode="replicate"), kernel)
    rel = release_kernel.shape[-1]
    slow = F.conv1d(F.pad(fast, (rel - 1, 0), mode="replicate"), release_kernel)
    gain_db = torch.minimum(fast, slow).squeeze(0)

    gain = 10.0 ** (gain_db / 20.0)
    y = x * gain
    y = soft_clip(y / ceiling, drive) * ceiling
    return y, gain_db.min(), gain_db.mean()


def programme(seconds, gen):
    """Noise bursts with kick-like transients and a bass line, peaking well above full scale."""
    t = torch.arange(seconds * SR) / SR
    bass = 0.5 * torch.sin(2 * math.pi * 55 * t) + 0.2 * torch.sin(2 * math.pi * 110 * t)
    env = torch.exp(-8.0 * (t * 2 % 1.0))
    kick = 1.1 * env * torch.sin(2 * math.pi * 60 * t + 4 * env)
    left = bass + kick + 0.15 * torch.randn(t.shape, generator=gen)
    right = bass + 0.9 * kick + 0.15 * torch.randn(t.shape, generator=gen)
    return torch.stack([left, right])


def main():
    gen = torch.Generator().manual_seed(3)
    audio = programme(10, gen)
    look = int(SR * LOOKAHEAD_MS / 1000) | 1
    rel = int(SR * RELEASE_MS / 1000 / 4)
    bank = windowed_sinc(12, 4)
    kernel = smoothing_kernel(look)
    decay = torch.exp(-torch.arange(rel) / (rel / 4)).flip(0)
    release_kernel = (decay / decay.sum()).view(1, 1, -1)
    ceiling = db_to_lin(CEILING_DB)

    limiter = torch.compile(limit_block, mode="reduce-overhead")

    def block(i):
        start = (i * BLOCK // 2) % (audio.shape[1] - BLOCK)
        return audio[:, start : start + BLOCK].contiguous()

    with torch.inference_mode():
        for i in range(3):
            limiter(block(i), bank, kernel, release_kernel, ceiling, 0.6)

        worst, mean, peak = 0.0, 0.0, 0.0
        t0 = time.perf_counter()
        for i in range(BLOCKS):
            y, low, avg = limiter(block(i), bank, kernel, release_kernel, ceiling, 0.6)
            worst = min(worst, float(low))
            mean += float(avg)
            peak = max(peak, float(y.abs().max()))
        dt = (time.perf_counter() - t0) / BLOCKS

    print(f"max reduction {worst:.2f} dB, mean {mean / BLOCKS:.2f} dB, output peak {peak:.4f}")
    print(f"{dt * 1e3:.2f} ms per block, {BLOCK / SR / dt:.0f}x real time")


if __name__ == "__main__":
    main()
