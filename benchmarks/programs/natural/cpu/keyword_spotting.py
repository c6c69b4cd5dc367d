"""MFCC features and a depthwise-separable CNN for keyword spotting."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class MFCC(nn.Module):
    def __init__(self, n_fft=512, hop=160, mels=40, coeffs=20):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hamming_window(n_fft))
        self.register_buffer("fb", torch.rand(mels, n_fft // 2 + 1) ** 8)
        k, n = torch.arange(coeffs)[:, None], torch.arange(mels)[None]
        self.register_buffer("dct", torch.cos(math.pi / mels * (n + 0.5) * k) * math.sqrt(2 / mels))

    def forward(self, audio):
        frames = (
            F.pad(audio, (self.n_fft // 2, self.n_fft // 2), mode="reflect").unfold(-1, self.n_fft, self.hop)
            * self.window
        )
        power = torch.fft.rfft(frames).abs() ** 2
        return self.dct @ torch.log(self.fb @ power.transpose(1, 2) + 1e-6)


class DSBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.dw, self.pw = (
            nn.Conv2d(ch, ch, 3, padding=1, groups=ch, bias=False),
            nn.Conv2d(ch, ch, 1, bias=False),
        )
        self.b1, self.b2 = nn.BatchNorm2d(ch), nn.BatchNorm2d(ch)

    def forward(self, x):
        x = F.relu(self.b1(self.dw(x)))
        return F.relu(self.b2(self.pw(x)))


class KWS(nn.Module):
    def __init__(self, ch=64, classes=12):
        super().__init__()
        self.mfcc = MFCC()
        self.stem = nn.Sequential(
            nn.Conv2d(1, ch, (10, 4), (2, 2), (4, 1), bias=False), nn.BatchNorm2d(ch), nn.ReLU()
        )
        self.body = nn.Sequential(*[DSBlock(ch) for _ in range(4)])
        self.fc = nn.Linear(ch, classes)

    def forward(self, audio):
        return self.fc(self.body(self.stem(self.mfcc(audio)[:, None])).mean((2, 3))).softmax(-1)


def build(device, compiled):
    torch.manual_seed(0)
    model = KWS().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    audio = torch.randn(pick(8, 1), pick(16000, 4000), device=device)

    @torch.inference_mode()
    def step():
        return model(audio)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
