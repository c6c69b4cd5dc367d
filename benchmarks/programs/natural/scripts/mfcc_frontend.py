"""MFCC features with pre-emphasis, deltas and mean normalisation, as in a speech front end."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def mel_bank(n_mels, n_fft, sr):
    def mel(f):
        return 2595 * np.log10(1 + f / 700)

    edges = 700 * (10 ** (np.linspace(mel(0), mel(sr / 2), n_mels + 2) / 2595) - 1)
    bins = np.floor((n_fft + 1) * edges / sr).astype(int)
    bank = np.zeros((n_fft // 2 + 1, n_mels))
    for m in range(n_mels):
        a, b, c = bins[m : m + 3]
        bank[a:b, m] = (np.arange(a, b) - a) / max(b - a, 1)
        bank[b:c, m] = (c - np.arange(b, c)) / max(c - b, 1)
    return bank


N_FFT, HOP, SR, N_MELS, N_MFCC = 512, 160, 16000, 40, 13
BANK = torch.from_numpy(mel_bank(N_MELS, N_FFT, SR))
WINDOW = torch.from_numpy(np.hanning(N_FFT))


def dct_matrix(n, k):
    t = torch.arange(n) + 0.5
    d = torch.cos(math.pi / n * t[:, None] * torch.arange(k)[None]) * math.sqrt(2 / n)
    d[:, 0] /= math.sqrt(2)
    return d


def deltas(x, width=2):
    pad = F.pad(x.transpose(1, 2), (width, width), mode="replicate")
    num = sum(
        n * (pad[..., width + n : width + n + x.shape[1]] - pad[..., width - n : width - n + x.shape[1]])
        for n in range(1, width + 1)
    )
    return (num / (2 * sum(n * n for n in range(1, width + 1)))).transpose(1, 2)


def mfcc(wave):
    y = torch.cat([wave[:, :1], wave[:, 1:] - 0.97 * wave[:, :-1]], 1)
    frames = y.unfold(1, N_FFT, HOP) * WINDOW
    power = torch.fft.rfft(frames).abs() ** 2 / N_FFT
    mels = torch.log(power @ BANK + 1e-6)
    c = mels @ dct_matrix(N_MELS, N_MFCC).to(mels)
    d = deltas(c)
    feats = torch.cat([c, d, deltas(d)], -1)
    return (feats - feats.mean(1, keepdim=True)) / (feats.std(1, keepdim=True) + 1e-5)


torch.manual_seed(0)
f = torch.compile(mfcc)
with torch.no_grad():
    for _ in range(25):
        out = f(torch.randn(8, SR * 2))
print(out.shape, out.dtype)
