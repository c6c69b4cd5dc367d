"""Train an x-vector TDNN that tells regional accents apart from utterances of differing length."""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)

RATE, N_FFT, HOP, MELS, ACCENTS = 8000, 256, 80, 40, 8


def mel_matrix():
    def mel(f):
        return 2595 * math.log10(1 + f / 700)

    pts = torch.linspace(mel(60), mel(RATE / 2), MELS + 2)
    hz = 700 * (10 ** (pts / 2595) - 1)
    freqs = torch.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (freqs[:, None] - hz[:-2]) / (hz[1:-1] - hz[:-2])
    down = (hz[2:] - freqs[:, None]) / (hz[2:] - hz[1:-1])
    return torch.minimum(up, down).clamp_min(0)


def synth_utterances(count, seconds, gen):
    n = int(seconds * RATE)
    t = torch.arange(n) / RATE
    accent = torch.randint(0, ACCENTS, (count,), generator=gen)
    pitch = 90 + 120 * torch.rand(count, 1, generator=gen)
    lilt = (2 + accent.float() * 0.6)[:, None]
    f0 = pitch * (1 + 0.08 * torch.sin(2 * math.pi * lilt * t))
    phase = 2 * math.pi * torch.cumsum(f0 / RATE, 1)
    formant = (500 + 110 * accent.float())[:, None] * (1 + 0.05 * torch.randn(count, 1, generator=gen))
    wave = torch.zeros(count, n)
    for k in range(1, 13):
        gain = torch.exp(-(((k * pitch - formant) / 250) ** 2)) + 0.1
        wave += gain * torch.sin(k * phase)
    return wave + 0.3 * torch.randn(count, n, generator=gen), accent


class Fbank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hamming_window(N_FFT))
        self.register_buffer("mel", mel_matrix())

    def forward(self, wave):
        emphasised = torch.cat([wave[:, :1], wave[:, 1:] - 0.97 * wave[:, :-1]], 1)
        spec = torch.stft(emphasised, N_FFT, HOP, window=self.window, return_complex=True)
        power = spec.abs().square().transpose(1, 2)
        feats = (power @ self.mel + 1e-6).log()
        return (feats - feats.mean(1, keepdim=True)).transpose(1, 2)


class TdnnLayer(nn.Module):
    def __init__(self, cin, cout, context, dilation):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, context, dilation=dilation)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        return self.bn(F.relu(self.conv(x)))


class XVector(nn.Module):
    def __init__(self, width=128, emb=96):
        super().__init__()
        self.frame = nn.Sequential(
            TdnnLayer(MELS, width, 5, 1),
            TdnnLayer(width, width, 3, 2),
            TdnnLayer(width, width, 3, 3),
            TdnnLayer(width, width, 1, 1),
            TdnnLayer(width, 384, 1, 1),
        )
        self.segment = nn.Linear(768, emb)
        self.bn = nn.BatchNorm1d(emb)
        self.out = nn.Linear(emb, ACCENTS)

    def forward(self, feats):
        h = self.frame(feats)
        stats = torch.cat([h.mean(2), h.std(2)], dim=1)
        e = self.bn(self.segment(stats))
        return self.out(F.relu(e)), e


def spec_mask(feats, rng):
    feats = feats.clone()
    f0 = rng.randrange(0, MELS - 6)
    feats[:, f0 : f0 + rng.randrange(1, 7)] = 0
    t0 = rng.randrange(0, feats.shape[2] - 20)
    feats[:, :, t0 : t0 + rng.randrange(1, 20)] = 0
    return feats


def main():
    torch.manual_seed(41)
    rng = random.Random(41)
    gen = torch.Generator().manual_seed(41)
    fbank = Fbank()
    net = XVector()
    model = torch.compile(net, dynamic=True)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    recent = []
    for step in range(120):
        wave, accent = synth_utterances(24, rng.choice((1.2, 1.6, 2.0)), gen)
        feats = spec_mask(fbank(wave), rng)
        logits, emb = model(feats)
        loss = F.cross_entropy(logits, accent) + 1e-4 * emb.square().sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        recent.append((logits.argmax(1) == accent).float().mean().item())
        if step % 40 == 39:
            print(
                f"step {step + 1}: loss {loss.item():.3f}  accuracy of the last 40 {sum(recent[-40:]) / 40:.3f}"
            )
    net.eval()
    with torch.inference_mode():
        wave, accent = synth_utterances(64, 2.0, gen)
        guess = net(fbank(wave))[0].argmax(1)
        print(f"held-out accuracy {(guess == accent).float().mean():.3f}")


if __name__ == "__main__":
    main()
