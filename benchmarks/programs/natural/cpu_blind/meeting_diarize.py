#!/usr/bin/env python
"""Offline speaker diarisation of meeting recordings: log-mel front end, TDNN embeddings with
attentive statistics pooling on sliding windows, spectral clustering of the affinities."""

import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SR, HOP, NFFT, MELS = 16000, 160, 512, 64
WIN, STEP = 150, 75  # frames: 1.5 s windows, 0.75 s apart


def mel_matrix():
    def to_mel(f):
        return 2595 * math.log10(1 + f / 700)

    pts = torch.linspace(to_mel(40), to_mel(SR / 2), MELS + 2)
    hz = 700 * (10 ** (pts / 2595) - 1)
    f = torch.linspace(0, SR / 2, NFFT // 2 + 1)
    up = (f - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - f) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class Frontend(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("mel", mel_matrix())

    def forward(self, wav):
        wav = F.pad(wav[..., 1:] - 0.97 * wav[..., :-1], (1, 0))
        spec = torch.stft(wav, NFFT, HOP, 400, self.window, return_complex=True)
        return torch.log(self.mel @ spec.abs().square() + 1e-6)


class TDNN(nn.Module):
    def __init__(self, cin, cout, k, d):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, dilation=d, padding=d * (k - 1) // 2)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        return self.bn(F.relu(self.conv(x)))


class SpeakerNet(nn.Module):
    def __init__(self, ch=128, emb=128):
        super().__init__()
        self.inp = TDNN(MELS, ch, 5, 1)
        self.blocks = nn.ModuleList(TDNN(ch, ch, 3, d) for d in (2, 3, 4))
        self.mix = nn.Conv1d(3 * ch, 2 * ch, 1)
        self.att = nn.Sequential(nn.Conv1d(6 * ch, 64, 1), nn.Tanh(), nn.Conv1d(64, 2 * ch, 1))
        self.fc = nn.Linear(4 * ch, emb)

    def forward(self, x):
        x = x - x.mean((1, 2), keepdim=True)
        h = self.inp(x)
        outs = []
        for b in self.blocks:
            h = h + b(h)
            outs.append(h)
        z = F.relu(self.mix(torch.cat(outs, 1)))
        mu, sd = z.mean(-1, keepdim=True), z.std(-1, keepdim=True)
        ctx = torch.cat([z, mu.expand_as(z), sd.expand_as(z)], 1)
        w = self.att(ctx).softmax(-1)
        m = (w * z).sum(-1)
        s = ((w * z * z).sum(-1) - m * m).clamp(min=1e-6).sqrt()
        return F.normalize(self.fc(torch.cat([m, s], 1)), dim=-1)


def synth_meeting(gen, n_spk, seconds):
    """Turns of harmonic 'voices' with per-speaker pitch and formants, plus room noise."""
    n = seconds * SR
    t = torch.arange(n) / SR
    f0 = torch.linspace(90, 240, n_spk)[torch.randperm(n_spk, generator=gen)]
    formant = 400 + 2600 * torch.rand(n_spk, 3, generator=gen)
    wav, ref = torch.zeros(n), torch.zeros(n // HOP, dtype=torch.long)
    pos, spk = 0, 0
    while pos < n:
        dur = int((2.0 + 4.0 * torch.rand(1, generator=gen).item()) * SR)
        end = min(n, pos + dur)
        tt = t[pos:end]
        k = torch.arange(1, 30)[:, None]
        f = f0[spk] * k
        amp = sum(torch.exp(-(((f - c) / 250) ** 2)) for c in formant[spk]) + 0.02
        vib = 0.6 * torch.sin(2 * math.pi * 5 * tt)
        syll = 0.55 + 0.45 * torch.sin(2 * math.pi * 3.5 * tt + spk)
        wav[pos:end] = (amp * torch.sin(2 * math.pi * f * tt + k * vib)).sum(0) * syll
        ref[pos // HOP : end // HOP] = spk
        spk = (spk + 1 + int(torch.randint(n_spk - 1, (1,), generator=gen))) % n_spk
        pos = end
    return 0.1 * wav + 0.01 * torch.randn(n, generator=gen), ref


def cluster(emb, gen, max_spk=6):
    a = emb @ emb.T
    thr = a.quantile(0.85, dim=1, keepdim=True)
    a = torch.where(a > thr, a, 0.01 * a).clamp(min=0)
    a = torch.maximum(a, a.T)
    d = a.sum(1).rsqrt()
    lap = torch.eye(len(a)) - d[:, None] * a * d
    val, vec = torch.linalg.eigh(lap.double())
    gaps = val[1 : max_spk + 1] - val[:max_spk]
    k = int(gaps[1:].argmax()) + 2
    x = F.normalize(vec[:, :k].float(), dim=1)
    cent = x[torch.randint(len(x), (1,), generator=gen)]
    for _ in range(k - 1):  # farthest-point seeding
        far = torch.cdist(x, cent).amin(1).argmax()
        cent = torch.cat([cent, x[far : far + 1]])
    for _ in range(20):
        lab = torch.cdist(x, cent).argmin(1)
        cent = torch.stack([x[lab == j].mean(0) if (lab == j).any() else cent[j] for j in range(k)])
    return lab, k


def error_rate(hyp, ref, k, n_spk):
    m = max(k, n_spk)
    conf = torch.zeros(m, m).index_put_((hyp, ref), torch.ones(len(ref)), accumulate=True)
    best = max(sum(conf[i, p[i]].item() for i in range(m)) for p in itertools.permutations(range(m)))
    return 1 - best / len(ref)


@torch.inference_mode()
def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(11)
    front, net = Frontend().eval(), SpeakerNet().eval()
    embed = torch.compile(net, mode="reduce-overhead")

    for i, (n_spk, secs) in enumerate([(2, 97), (3, 180), (4, 241), (2, 64), (3, 305), (4, 150)]):
        wav, ref = synth_meeting(gen, n_spk, secs)
        feats = front(wav)[:, : len(ref)]
        wins = feats.unfold(1, WIN, STEP).permute(1, 0, 2)
        emb = torch.cat([embed(w) for w in wins.split(16)])
        lab, k = cluster(emb - emb.mean(0), gen)
        centre = torch.arange(len(lab)) * STEP + WIN // 2
        der = error_rate(lab, ref[centre], k, n_spk)
        print(f"meeting {i}: {secs}s, {len(wins)} windows, speakers {k} (true {n_spk}), confusion {der:.3f}")


if __name__ == "__main__":
    main()
