"""Chord chart service: audio clip in, list of (start, end, chord) out.

A log-frequency spectrogram front end, a small convolutional net and a bidirectional GRU label each frame with one of
25 chords (12 major, 12 minor, none); frame labels are smoothed and merged to segments.  Users upload clips of any length.
"""

import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

SR = 22050
NOTES = ["C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"]
CHORDS = NOTES + [n + "m" for n in NOTES] + ["N"]


class LogFreqSpectrogram(nn.Module):
    def __init__(self, n_fft=4096, hop=1024, bins_per_octave=24, octaves=6, fmin=55.0):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        freqs = torch.linspace(0, SR / 2, n_fft // 2 + 1)
        centres = fmin * 2.0 ** (torch.arange(bins_per_octave * octaves) / bins_per_octave)
        width = (centres * (2 ** (1 / bins_per_octave) - 1)).clamp_min(1.2 * SR / n_fft)
        fb = (1 - (freqs[None] - centres[:, None]).abs() / width[:, None]).clamp_min(0)
        self.register_buffer("fb", fb / fb.sum(1, keepdim=True).clamp_min(1e-6))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        mag = torch.matmul(self.fb, spec.abs())
        x = torch.log1p(100.0 * mag)
        return (x - x.mean(dim=(1, 2), keepdim=True)) / (x.std(dim=(1, 2), keepdim=True) + 1e-5)


class ChordNet(nn.Module):
    def __init__(self, n_bins=144, width=24, hidden=96):
        super().__init__()
        self.frontend = LogFreqSpectrogram()
        self.convs = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2),
            nn.BatchNorm2d(width),
            nn.ELU(),
            nn.MaxPool2d((2, 1)),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ELU(),
            nn.MaxPool2d((3, 1)),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ELU(),
            nn.MaxPool2d((2, 1)),
            nn.Dropout(0.2),
        )
        self.proj = nn.Linear(2 * width * (n_bins // 12), 128)
        self.gru = nn.GRU(128, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(CHORDS))

    def forward(self, wav):
        x = self.frontend(wav).unsqueeze(1)
        x = self.convs(x)  # B, C, F, T
        x = x.permute(0, 3, 1, 2).flatten(2)
        x = F.elu(self.proj(x))
        x, _ = self.gru(x)
        return self.out(x).log_softmax(-1)


@dataclass
class Segment:
    start: float
    end: float
    chord: str


class ChordService:
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.model = ChordNet().eval()
        self.infer = torch.compile(self.model)
        self.frame_time = self.model.frontend.hop / SR

    @torch.inference_mode()
    def chart(self, wav, smooth=9):
        wav = wav / wav.abs().max().clamp_min(1e-4)
        logp = self.infer(wav[None])[0]
        # a moving average over the posteriors, to avoid flicker
        p = F.avg_pool1d(logp.exp().T[None], smooth, stride=1, padding=smooth // 2)[0]
        labels = p.argmax(0).tolist()
        segments, begin = [], 0
        for i in range(1, len(labels) + 1):
            if i == len(labels) or labels[i] != labels[begin]:
                segments.append(Segment(begin * self.frame_time, i * self.frame_time, CHORDS[labels[begin]]))
                begin = i
        return segments, logp.max(-1).values.mean().item()


def synth_clip(rng, gen):
    """A strummed loop of four chords with some noise."""
    seconds = rng.uniform(4.0, 22.0)
    n = int(seconds * SR)
    t = torch.arange(n) / SR
    beat = rng.uniform(1.0, 2.2)
    progression = [(rng.randrange(12), rng.random() < 0.4) for _ in range(4)]
    wav = 0.02 * torch.randn(n, generator=gen)
    start, k = 0.0, 0
    while start < seconds:
        a, b = int(start * SR), min(int((start + beat) * SR), n)
        local = t[a:b] - start
        root, minor = progression[k % 4]
        for semitone in (0, 3 if minor else 4, 7, 12):
            f = 110.0 * 2 ** ((root + semitone) / 12)
            for h in (1, 2, 3):
                wav[a:b] += torch.sin(2 * math.pi * f * h * local) * torch.exp(-1.5 * local) / (4 * h)
        start += beat
        k += 1
    return wav


def main():
    rng = random.Random(11)
    gen = torch.Generator().manual_seed(11)
    service = ChordService()
    clips = [synth_clip(rng, gen) for _ in range(48)]
    total, n_segments, confidence = 0.0, 0, []
    counts = {}
    for wav in clips:
        segments, conf = service.chart(wav)
        total += len(wav) / SR
        n_segments += len(segments)
        confidence.append(conf)
        for s in segments:
            counts[s.chord] = counts.get(s.chord, 0.0) + s.end - s.start
    print(f"{len(clips)} clips, {total:.0f} s of audio, {n_segments} segments")
    print(f"mean frame log-confidence {sum(confidence) / len(confidence):.4f}")
    for chord, sec in sorted(counts.items(), key=lambda kv: -kv[1])[:5]:
        print(f"  {chord:3s} {sec:7.1f} s")


if __name__ == "__main__":
    main()
