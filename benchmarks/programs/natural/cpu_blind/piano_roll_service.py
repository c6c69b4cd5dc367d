"""Piano transcription behind a small request handler.

Clients upload practice clips of any length. Each is turned into a log-mel spectrogram, run through an onsets-and-frames
style network (conv stack + BiLSTM for onsets, frames conditioned on onsets, velocity head) and decoded into notes.
"""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SR = 16000
HOP = 512
N_FFT = 2048
N_MELS = 160
N_KEYS = 88


def mel_matrix():
    def hz2mel(f):
        return 2595 * math.log10(1 + f / 700)

    mels = torch.linspace(hz2mel(30.0), hz2mel(SR / 2), N_MELS + 2)
    hz = 700 * (10 ** (mels / 2595) - 1)
    freqs = torch.linspace(0, SR / 2, N_FFT // 2 + 1)
    up = (freqs[:, None] - hz[None, :-2]) / (hz[1:-1] - hz[:-2])
    down = (hz[None, 2:] - freqs[:, None]) / (hz[2:] - hz[1:-1])
    return torch.minimum(up, down).clamp(min=0)


class ConvStack(nn.Module):
    def __init__(self, out, width=24):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d((1, 2)),
            nn.Dropout(0.25),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d((1, 2)),
            nn.Dropout(0.25),
        )
        self.fc = nn.Sequential(nn.Linear(2 * width * (N_MELS // 4), out), nn.Dropout(0.5))

    def forward(self, mel):
        x = self.cnn(mel.unsqueeze(1))
        x = x.transpose(1, 2).flatten(-2)
        return self.fc(x)


class OnsetsFrames(nn.Module):
    def __init__(self, size=192):
        super().__init__()
        self.onset_stack = ConvStack(size)
        self.onset_rnn = nn.LSTM(size, size // 2, batch_first=True, bidirectional=True)
        self.onset_head = nn.Linear(size, N_KEYS)
        self.frame_stack = ConvStack(N_KEYS)
        self.combined_rnn = nn.LSTM(2 * N_KEYS, size // 2, batch_first=True, bidirectional=True)
        self.frame_head = nn.Linear(size, N_KEYS)
        self.velocity = ConvStack(N_KEYS, width=8)

    def forward(self, mel):
        onset = torch.sigmoid(self.onset_head(self.onset_rnn(self.onset_stack(mel))[0]))
        activation = torch.sigmoid(self.frame_stack(mel))
        combined = torch.cat([onset.detach(), activation], dim=-1)
        frame = torch.sigmoid(self.frame_head(self.combined_rnn(combined)[0]))
        return onset, frame, self.velocity(mel)


class Transcriber:
    def __init__(self):
        torch.manual_seed(88)
        self.model = OnsetsFrames().eval()
        self.model = torch.compile(self.model)
        self.window = torch.hann_window(N_FFT)
        self.mel = mel_matrix()
        self.served = 0

    def features(self, wav):
        spec = torch.stft(wav, N_FFT, HOP, window=self.window, return_complex=True).abs()
        return torch.log((spec.T @ self.mel).clamp(min=1e-5))

    def decode(self, onset, frame, velocity):
        """Peaks of the onset curve above the clip's own threshold, held while the frame head agrees."""
        thr = onset.quantile(0.995).item()
        peak = (onset > thr) & (onset >= F.pad(onset, (0, 0, 1, 0))[:-1])
        hold = frame > frame.median()
        notes = []
        for t, k in peak.nonzero().tolist():
            end = t + 1
            column = hold[t + 1 : t + 60, k].tolist()
            for on in column:
                if not on:
                    break
                end += 1
            notes.append((t * HOP / SR, (end - t) * HOP / SR, 21 + k, float(velocity[t, k].clamp(0, 1))))
        return notes

    @torch.no_grad()
    def handle(self, wav):
        mel = self.features(wav)
        onset, frame, velocity = self.model(mel[None])
        self.served += 1
        return self.decode(onset[0], frame[0], velocity[0])


def practice_clip(rng, seconds):
    n = int(seconds * SR)
    t = torch.arange(n) / SR
    wav = 0.003 * torch.randn(n)
    pos = 0.0
    while pos < seconds - 0.3:
        key = rng.choice([40, 44, 47, 52, 56, 59, 64])
        f = 440 * 2 ** ((key - 49) / 12)
        env = torch.exp(-4 * (t - pos).clamp(min=0)) * (t >= pos)
        for harm in (1, 2, 3):
            wav += 0.2 / harm * env * torch.sin(2 * math.pi * f * harm * t)
        pos += rng.choice([0.25, 0.5, 0.5, 1.0])
    return wav


def main():
    rng = random.Random(12)
    torch.manual_seed(12)
    service = Transcriber()
    clips = [practice_clip(rng, rng.uniform(2.0, 9.0)) for _ in range(40)]
    total, seconds, low, high = 0, 0.0, 127, 0
    for request in range(90):
        wav = clips[rng.randrange(len(clips))]
        notes = service.handle(wav)
        total += len(notes)
        seconds += len(wav) / SR
        if notes:
            low = min(low, min(n[2] for n in notes))
            high = max(high, max(n[2] for n in notes))
    print(f"served {service.served} clips, {seconds:.0f} s of audio")
    print(f"{total} note candidates, {total / seconds:.2f} per second, pitch range {low}-{high}")


if __name__ == "__main__":
    main()
