"""Render a training set of subtractive-synth notes: saw oscillator, transistor ladder low-pass, ADSR.

Every row of the batch is one preset (pitch, cutoff sweep, resonance, drive). Audio is made block by block, as in a
plug-in, with the ladder run sample by sample at twice the sample rate.
"""

import math
import time

import torch

SR = 44100
BLOCK = 16
OVERSAMPLE = 2
VOICES = 6144
N_BLOCKS = 800


def poly_blep(t, dt):
    """Band-limited step residual for a saw, t in [0, 1)."""
    lo = t / dt
    hi = (t - 1.0) / dt
    res = torch.where(t < dt, lo + lo - lo * lo - 1.0, torch.zeros_like(t))
    return torch.where(t > 1.0 - dt, hi * hi + hi + hi + 1.0, res)


def oscillator(phase, freq):
    dt = (freq / SR).unsqueeze(1)
    steps = torch.arange(1, BLOCK + 1, dtype=torch.float32)
    ph = torch.remainder(phase.unsqueeze(1) + dt * steps, 1.0)
    saw = 2.0 * ph - 1.0 - poly_blep(ph, dt)
    return saw, ph[:, -1]


def ladder_step(x, s, g, k):
    s1, s2, s3, s4 = s
    u = torch.tanh(x - k * s4)
    s1 = s1 + g * (u - torch.tanh(s1))
    s2 = s2 + g * (torch.tanh(s1) - torch.tanh(s2))
    s3 = s3 + g * (torch.tanh(s2) - torch.tanh(s3))
    s4 = s4 + g * (torch.tanh(s3) - torch.tanh(s4))
    return s1, s2, s3, s4


@torch.compile
def render_block(phase, s1, s2, s3, s4, freq, cutoff, reson, drive, gain):
    saw, phase = oscillator(phase, freq)
    g = 1.0 - torch.exp(-2.0 * math.pi * cutoff / (SR * OVERSAMPLE))
    k = 4.0 * reson
    s = (s1, s2, s3, s4)
    out = []
    for n in range(BLOCK):
        x = drive * saw[:, n]
        for _ in range(OVERSAMPLE):
            s = ladder_step(x, s, g, k)
        out.append(s[3])
    y = torch.stack(out, dim=1) * gain.unsqueeze(1)
    return (y, phase) + s


def adsr(t, attack, decay, sustain, release, gate):
    a = (t / attack).clamp(max=1.0)
    d = 1.0 - (1.0 - sustain) * ((t - attack) / decay).clamp(0.0, 1.0)
    r = torch.exp(-(t - gate).clamp(min=0.0) / release)
    return a * d * r


class PresetBank:
    def __init__(self, n, seed=3):
        gen = torch.Generator().manual_seed(seed)
        u = lambda lo, hi: lo + (hi - lo) * torch.rand(n, generator=gen)
        midi = torch.randint(33, 76, (n,), generator=gen).float()
        self.freq = 440.0 * 2.0 ** ((midi - 69.0) / 12.0)
        self.base_cutoff = 200.0 * 2.0 ** u(0.0, 3.0)
        self.sweep_oct = u(0.5, 3.5)
        self.reson = u(0.05, 0.85)
        self.drive = u(0.5, 2.5)
        self.amp_env = (u(0.002, 0.03), u(0.02, 0.1), u(0.3, 0.9), u(0.02, 0.1), u(0.08, 0.16))
        self.flt_env = (u(0.001, 0.02), u(0.02, 0.12), u(0.0, 0.5), u(0.02, 0.1), u(0.08, 0.16))
        self.phase = torch.rand(n, generator=gen)


def render(bank, n_blocks):
    n = bank.freq.numel()
    phase = bank.phase.clone()
    s = tuple(torch.zeros(n) for _ in range(4))
    audio = torch.empty(n, n_blocks * BLOCK)
    for b in range(n_blocks):
        t = torch.tensor(b * BLOCK / SR)
        gain = adsr(t, *bank.amp_env)
        cutoff = bank.base_cutoff * 2.0 ** (bank.sweep_oct * adsr(t, *bank.flt_env))
        y, phase, *s = render_block(phase, *s, bank.freq, cutoff, bank.reson, bank.drive, gain)
        audio[:, b * BLOCK : (b + 1) * BLOCK] = y
    return audio


def brightness(audio):
    """Spectral centroid per note, a label that the downstream model predicts."""
    win = torch.hann_window(2048)
    spec = torch.fft.rfft(audio[:, 1024:3072] * win).abs()
    f = torch.fft.rfftfreq(2048, 1.0 / SR)
    return (spec * f).sum(1) / spec.sum(1).clamp(min=1e-9)


def main():
    torch.manual_seed(0)
    bank = PresetBank(VOICES)
    with torch.no_grad():
        t0 = time.perf_counter()
        audio = render(bank, N_BLOCKS)
        dt = time.perf_counter() - t0
        cent = brightness(audio)
    seconds = N_BLOCKS * BLOCK / SR
    print(
        f"rendered {VOICES} notes of {seconds:.2f} s in {dt:.2f} s ({VOICES * seconds / dt:.0f} x real time)"
    )
    print(
        f"rms {audio.pow(2).mean().sqrt():.4f}  peak {audio.abs().max():.3f}  finite {bool(audio.isfinite().all())}"
    )
    print(f"centroid Hz: median {cent.median():.0f}, 95% {cent.quantile(0.95):.0f}")


if __name__ == "__main__":
    main()
