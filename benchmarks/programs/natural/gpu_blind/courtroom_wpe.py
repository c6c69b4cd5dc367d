"""Dereverberate recordings of a courtroom's microphone array with WPE (weighted prediction error, Nakatani et al.).

Each hearing comes as segments of different length from an eight-microphone array.  The late reverberation is predicted
per frequency from delayed frames by iteratively reweighted least squares and subtracted.  The speech is simulated
(noisy harmonic bursts with pauses), the rooms are exponentially decaying noise.
"""

import random

import torch
import torch.nn.functional as F

torch.manual_seed(29)
random.seed(29)
device = "cuda" if torch.cuda.is_available() else "cpu"
RATE = 16000
if device == "cuda":
    MICS, TAPS, DELAY, SEGMENTS, LENGTHS, N_FFT = 8, 12, 3, 150, (12.0, 20.0), 512
else:
    MICS, TAPS, DELAY, SEGMENTS, LENGTHS, N_FFT = 2, 4, 5, 16, (0.5, 1.0), 128
HOP = N_FFT // 4
ITERATIONS = 3


def speech(n):
    t = torch.arange(n, device=device) / RATE
    f0 = 110 + 60 * torch.rand((), device=device) + 15 * torch.sin(2 * torch.pi * 0.7 * t)
    f0 = f0 + 25 * torch.randn(n, device=device)
    phase = 2 * torch.pi * torch.cumsum(f0 / RATE, 0)
    voice = sum(torch.sin(k * phase) / k for k in range(1, 25))
    syllables = torch.rand(n // 3200 + 2, device=device)
    envelope = F.interpolate((syllables > 0.35).float()[None, None] * syllables, size=n, mode="linear")[0, 0]
    return (0.3 * voice + 1.0 * torch.randn(n, device=device)) * envelope


def room(rt60, length=8000):
    t = torch.arange(length, device=device) / RATE
    decay = torch.exp(-6.9 * t / rt60)
    rir = torch.randn(MICS, length, device=device) * decay * 0.15
    rir[:, :20] = 0.0
    for m in range(MICS):
        rir[m, 8 + m] = 1.0
    return rir


def fft_convolve(x, h):
    n = x.shape[-1] + h.shape[-1] - 1
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(h, n), n)[..., : x.shape[-1]]


def record(seconds):
    n = int(seconds * RATE)
    rir = room(random.uniform(0.4, 0.9))
    dry = speech(n)
    early = rir.clone()
    early[:, DELAY * HOP :] = 0.0
    wet = fft_convolve(dry[None], rir) + 0.002 * torch.randn(MICS, n, device=device)
    return wet, fft_convolve(dry[None], early)


def stack_delayed(Y, taps, delay):
    """(F, D, T) -> (F, D * taps, T)"""
    n_freq, n_mic, n_frames = Y.shape
    rows = []
    for k in range(taps):
        shift = delay + k
        rows.append(torch.cat([torch.zeros_like(Y[..., :shift]), Y[..., : n_frames - shift]], dim=-1))
    return torch.stack(rows, 1).reshape(n_freq, taps * n_mic, n_frames)


@torch.compile
def wpe(Y):
    """Y (F, D, T) complex"""
    Y_tilde = stack_delayed(Y, TAPS, DELAY)
    X = Y
    eye = torch.eye(Y_tilde.shape[1], device=Y.device, dtype=Y.dtype)
    for _ in range(ITERATIONS):
        power = X.abs().square().mean(1)
        power = torch.maximum(power, 1e-6 * power.amax(dim=-1, keepdim=True))
        weighted = Y_tilde / power[:, None, :]
        R = weighted @ Y_tilde.conj().transpose(-1, -2)
        P = weighted @ Y.conj().transpose(-1, -2)
        trace = R.diagonal(dim1=-2, dim2=-1).real.mean(-1)
        G = torch.linalg.solve(R + 1e-6 * trace[:, None, None] * eye, P)
        X = Y - G.conj().transpose(-1, -2) @ Y_tilde
    return X


def dereverberate(signal, window):
    Y = torch.stft(signal, N_FFT, HOP, window=window, return_complex=True).transpose(0, 1)
    X = wpe(Y)
    return torch.istft(X.transpose(0, 1), N_FFT, HOP, window=window, length=signal.shape[-1])


def si_sdr(estimate, target):
    scale = (estimate * target).sum(-1, keepdim=True) / target.square().sum(-1, keepdim=True)
    error = estimate - scale * target
    return 10 * torch.log10((scale * target).square().sum(-1) / error.square().sum(-1))


@torch.inference_mode()
def main():
    window = torch.hann_window(N_FFT, device=device)
    before, after, seconds = [], [], 0.0
    for i in range(SEGMENTS):
        length = random.uniform(*LENGTHS)
        wet, target = record(length)
        clean = dereverberate(wet, window)
        before.append(si_sdr(wet, target).mean().item())
        after.append(si_sdr(clean, target).mean().item())
        seconds += length
    print(f"{SEGMENTS} segments, {seconds / 60:.1f} minutes of audio, {MICS} microphones")
    print(f"SI-SDR before {sum(before) / len(before):.2f} dB, after {sum(after) / len(after):.2f} dB")
    gains = sorted(a - b for a, b in zip(after, before))
    print(f"gain: worst {gains[0]:.2f} dB, median {gains[len(gains) // 2]:.2f} dB, best {gains[-1]:.2f} dB")


if __name__ == "__main__":
    main()
