"""Log-mel spectrogram with pre-emphasis and per-utterance normalisation."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def mel_filters(n_mels, n_fft, rate):
    def hz_to_mel(f):
        return 2595.0 * math.log10(1 + f / 700.0)

    points = torch.linspace(hz_to_mel(20.0), hz_to_mel(rate / 2), n_mels + 2)
    hz = 700.0 * (10 ** (points / 2595.0) - 1)
    freqs = torch.linspace(0, rate / 2, n_fft // 2 + 1)
    lower = (freqs[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    upper = (hz[2:, None] - freqs[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(lower, upper).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self, rate=16000, n_fft=512, hop=160, n_mels=80):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("fb", mel_filters(n_mels, n_fft, rate))

    def forward(self, audio):
        audio = torch.cat([audio[:, :1], audio[:, 1:] - 0.97 * audio[:, :-1]], 1)
        spec = torch.stft(audio, self.n_fft, self.hop, window=self.window, center=True, return_complex=True)
        power = spec.real**2 + spec.imag**2
        mel = torch.log(self.fb @ power + 1e-6)
        mean = mel.mean(-1, keepdim=True)
        std = mel.std(-1, keepdim=True)
        mel = (mel - mean) / (std + 1e-5)
        delta = F.pad(mel[..., 2:] - mel[..., :-2], (1, 1)) / 2
        return torch.cat([mel, delta], 1)


def build(device, compiled):
    torch.manual_seed(0)
    front = LogMel().to(device)
    if compiled:
        front = torch.compile(front, backend=BACKEND)
    audio = torch.randn(pick(64, 2), 16000 * pick(10, 1), device=device)

    @torch.no_grad()
    def step():
        return front(audio)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
