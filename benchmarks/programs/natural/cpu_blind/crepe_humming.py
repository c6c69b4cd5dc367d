"""Query by humming: pitch contours of short recordings with a CREPE-like network, and a lookup of the melody."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SR, WIN, HOP, BINS = 16000, 1024, 320, 360
torch.manual_seed(17)


class CrepeTiny(nn.Module):
    def __init__(self, width=(64, 16, 16, 24, 32, 48)):
        super().__init__()
        kernels = (512, 64, 64, 64, 64, 64)
        strides = (4, 1, 1, 1, 1, 1)
        layers, cin = [], 1
        for c, k, s in zip(width, kernels, strides):
            pad = (254, 254) if k == 512 else (31, 32)
            layers += [
                nn.ConstantPad1d(pad, 0.0),
                nn.Conv1d(cin, c, k, s),
                nn.ReLU(),
                nn.BatchNorm1d(c),
                nn.MaxPool1d(2),
                nn.Dropout(0.25),
            ]
            cin = c
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(cin * 4, BINS)

    def forward(self, frames):
        h = self.features(frames.unsqueeze(1))
        return torch.sigmoid(self.classifier(h.transpose(1, 2).flatten(1)))


def make_frames(audio):
    audio = F.pad(audio, (WIN // 2, WIN // 2))
    frames = audio.unfold(0, WIN, HOP)
    frames = frames - frames.mean(1, keepdim=True)
    return frames / frames.std(1, keepdim=True).clamp(min=1e-8)


def cents_from_salience(salience):
    centers = torch.linspace(0, 7180, BINS, device=salience.device) + 1997.3794084376191
    peak = salience.argmax(1, keepdim=True)
    grid = torch.arange(BINS, device=salience.device)
    near = (grid - peak).abs() <= 4
    w = salience * near
    return (w * centers).sum(1) / w.sum(1), salience.amax(1)


def median_smooth(cents, width=9):
    padded = F.pad(cents[None, None], (width // 2, width // 2), mode="replicate")[0, 0]
    return padded.unfold(0, width, 1).median(-1).values


@torch.compile
def contour(model, audio):
    salience = model(make_frames(audio))
    cents, conf = cents_from_salience(salience)
    cents = median_smooth(cents)
    return cents - cents.mean(), conf


@torch.compile
def dtw_features(contour, length=128):
    c = F.interpolate(contour[None, None], size=length, mode="linear", align_corners=True)[0, 0]
    d = F.pad(c[1:] - c[:-1], (0, 1))
    return torch.cat([c / 100, d / 50])


def hum(seconds, gen):
    n = int(seconds * SR)
    notes = torch.randint(48, 72, (max(2, int(seconds * 2)),), generator=gen).float()
    idx = torch.linspace(0, len(notes) - 1e-3, n).long()
    freq = 440 * 2 ** ((notes[idx] - 69) / 12)
    vibrato = 1 + 0.01 * torch.sin(2 * math.pi * 5.5 * torch.arange(n) / SR)
    phase = torch.cumsum(2 * math.pi * freq * vibrato / SR, 0)
    x = sum(torch.sin(k * phase) / k**1.5 for k in range(1, 6))
    return x + 0.02 * torch.randn(n, generator=gen)


def main():
    gen = torch.Generator().manual_seed(2)
    model = CrepeTiny().eval()
    library = torch.randn(2000, 256, generator=gen)
    hits, frames, voiced = [], 0, 0.0
    with torch.no_grad():
        for _ in range(40):
            seconds = 1.0 + 2.0 * torch.rand((), generator=gen).item()
            cents, conf = contour(model, hum(seconds, gen))
            query = dtw_features(cents)
            dist = torch.cdist(query[None], library, p=1)[0]
            hits.append(dist.argmin().item())
            frames += len(cents)
            voiced += (conf > 0.5).float().mean().item()
    print(f"{len(hits)} queries, {frames} frames, mean voiced share {voiced / len(hits):.3f}")
    print("first matches", hits[:8])


if __name__ == "__main__":
    main()
