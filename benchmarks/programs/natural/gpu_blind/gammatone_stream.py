"""Streaming auditory front end for a keyword spotter served to many rooms.

Each room sends one second of 16 kHz audio at a time.  Two spectral resolutions
are mapped to gammatone bands, compressed with per-channel energy
normalisation-like smoothing, and projected to cepstra.
"""

import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"
RATE = 16_000


def erb_centres(bands, low=60.0, high=7600.0):
    def to_erb(f):
        return 21.4 * np.log10(1 + 0.00437 * f)

    e = np.linspace(to_erb(low), to_erb(high), bands)
    return (10 ** (e / 21.4) - 1) / 0.00437


def gammatone_bank(n_fft, bands, order=4):
    """Magnitude-squared responses of gammatone filters on the FFT bins."""
    f = np.arange(n_fft // 2 + 1)[:, None] * RATE / n_fft
    fc = erb_centres(bands)[None, :]
    width = 1.019 * 24.7 * (0.00437 * fc + 1)
    gain = (1 + ((f - fc) / width) ** 2) ** (-order)
    return (gain / gain.sum(0, keepdims=True)).astype(np.float32)


def dct_matrix(bands, keep):
    n = np.arange(bands)[:, None]
    k = np.arange(keep)[None, :]
    m = np.cos(math.pi / bands * (n + 0.5) * k) * math.sqrt(2.0 / bands)
    m[:, 0] *= math.sqrt(0.5)
    return m.astype(np.float32)


class Resolution(nn.Module):
    def __init__(self, n_fft, hop, bands, keep):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft, periodic=True))
        self.bank = torch.from_numpy(gammatone_bank(n_fft, bands))
        self.dct = torch.from_numpy(dct_matrix(bands, keep))
        self.alpha = nn.Parameter(torch.full((bands,), 0.6))

    def forward(self, audio):
        pad = F.pad(audio, (self.n_fft // 2, self.n_fft // 2))
        frames = pad.unfold(-1, self.n_fft, self.hop) * self.window
        spec = torch.fft.rfft(frames)
        power = spec.real.square() + spec.imag.square()
        energy = power @ self.bank.to(audio.device)
        level = energy.mean(dim=1, keepdim=True)
        x = (energy / (1e-6 + level) ** self.alpha + 2.0) ** 0.5 - 2.0**0.5
        return x @ self.dct.to(audio.device)


class FrontEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine = Resolution(2048, 160, bands=256, keep=40)
        self.fast = Resolution(512, 160, bands=128, keep=24)

    def forward(self, audio):
        audio = audio - 0.97 * F.pad(audio, (1, -1))  # pre-emphasis
        c = torch.cat([self.fine(audio), self.fast(audio)], dim=-1)
        d = F.pad(c[:, 2:] - c[:, :-2], (0, 0, 1, 1)) * 0.5
        c = torch.cat([c, d], dim=-1)
        return (c - c.mean(1, keepdim=True)) / (c.std(1, keepdim=True) + 1e-4)


class Rooms:
    """Hum, a gliding voice-like tone, and room noise."""

    def __init__(self, rooms, seed=440):
        self.gen = torch.Generator(device=DEVICE).manual_seed(seed)
        self.rooms = rooms
        self.t = torch.arange(RATE, device=DEVICE) / RATE

    def second(self):
        r = torch.rand(3, self.rooms, 1, device=DEVICE, generator=self.gen)
        f0 = 90 + 160 * r[0]
        phase = 2 * math.pi * (f0 * self.t + 20 * r[1] * self.t**2)
        voice = sum(torch.sin(k * phase) / k for k in range(1, 9))
        noise = torch.randn(self.rooms, RATE, device=DEVICE, generator=self.gen)
        return 0.1 * voice + (0.005 + 0.03 * r[2]) * noise


def main():
    torch.manual_seed(0)
    front = FrontEnd().to(DEVICE).eval()
    fast_front = torch.compile(front, mode="reduce-overhead")
    rooms = Rooms(rooms=24)

    with torch.inference_mode():
        for _ in range(4):
            fast_front(rooms.second())
        torch.cuda.synchronize()

        times, summary = [], torch.zeros(128, device=DEVICE)
        for step in range(40):
            audio = rooms.second()
            torch.cuda.synchronize()
            t0 = time.perf_counter()
            feats = fast_front(audio)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - t0) * 1e3)
            summary += feats.abs().mean((0, 1))
            if step % 5 == 0:
                print(f"second {step:2d}: {times[-1]:7.3f} ms  features {tuple(feats.shape)}")

    print(f"median {np.median(times):.3f} ms for {rooms.rooms} rooms")
    print("mean |feature|, first bands:", [round(v, 4) for v in (summary[:6] / 40).tolist()])


if __name__ == "__main__":
    main()
