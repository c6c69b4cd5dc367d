"""Fast Griffin-Lim resynthesis of edited magnitude spectrograms (stems of a mix)."""

import math
import time

import torch

torch.manual_seed(0)

SR = 22050
N_FFT = 1024
HOP = 256
SECONDS = 12
STEMS = 6
MOMENTUM = 0.99
N_ITER = 40

window = torch.hann_window(N_FFT)


def synth_stems():
    n = SR * SECONDS
    t = torch.arange(n) / SR
    notes = [220.0, 261.6, 329.6, 392.0, 440.0, 523.3]
    stems = []
    for k in range(STEMS):
        f0 = notes[k]
        env = 0.5 + 0.5 * torch.sin(2 * math.pi * (0.5 + 0.2 * k) * t)
        x = sum(torch.sin(2 * math.pi * f0 * h * t + k) / h for h in range(1, 6))
        stems.append(env * x + 0.01 * torch.randn(n))
    return torch.stack(stems)


def edited_magnitude(wave):
    spec = torch.stft(wave, N_FFT, HOP, window=window, return_complex=True)
    mag = spec.abs()
    # soft spectral gate, then a gentle tilt
    floor = mag.median(dim=-1, keepdim=True).values
    gate = mag / (mag + 0.5 * floor + 1e-6)
    tilt = torch.linspace(1.0, 0.7, mag.shape[1])[:, None]
    return mag * gate * tilt


@torch.compile
def iteration(mag, angles, prev):
    wave = torch.istft(mag * angles, N_FFT, HOP, window=window)
    rebuilt = torch.stft(wave, N_FFT, HOP, window=window, return_complex=True)
    angles = rebuilt + MOMENTUM / (1 + MOMENTUM) * (rebuilt - prev)
    angles = angles / (angles.abs() + 1e-12)
    return angles, rebuilt


def spectral_convergence(mag, rebuilt):
    return (torch.linalg.norm(rebuilt.abs() - mag) / torch.linalg.norm(mag)).item()


def main():
    wave = synth_stems()
    mag = edited_magnitude(wave)
    print("spectrogram", tuple(mag.shape))

    phase = 2 * math.pi * torch.rand(mag.shape)
    angles = torch.polar(torch.ones_like(mag), phase)
    prev = torch.zeros_like(angles)

    times = []
    with torch.no_grad():
        for it in range(N_ITER):
            t0 = time.perf_counter()
            angles, prev = iteration(mag, angles, prev)
            times.append(time.perf_counter() - t0)
            if (it + 1) % 10 == 0:
                print(f"iter {it + 1:3d}  spectral convergence {spectral_convergence(mag, prev):.4f}")
        out = torch.istft(mag * angles, N_FFT, HOP, window=window)
    print(f"peak {out.abs().max():.3f}, {sorted(times)[N_ITER // 2] * 1e3:.1f} ms per iteration")


if __name__ == "__main__":
    main()
