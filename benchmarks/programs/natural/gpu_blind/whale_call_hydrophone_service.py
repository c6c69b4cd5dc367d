"""Whale-call detection service for a network of hydrophones.

Buoys post 8-second clips (16 kHz, int16); the service collects them into micro-batches,
scores six call types and raises an alert for shipping lanes. Here a thread plays the buoys.
"""

import argparse
import math
import queue
import random
import threading
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE, SECONDS = 16000, 8
CALLS = ["fin_20hz", "blue_d", "humpback_song", "right_upcall", "sei_downsweep", "minke_pulse"]


class PcenFrontEnd(nn.Module):
    """Mel energies with per-channel energy normalisation against ship noise."""

    def __init__(self, n_fft=1024, hop=256, n_mels=96):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        freqs = torch.linspace(0, RATE / 2, n_fft // 2 + 1)
        mel = lambda f: 2595 * math.log10(1 + f / 700)
        edges = 700 * (10 ** (torch.linspace(mel(10), mel(6000), n_mels + 2) / 2595) - 1)
        up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
        self.register_buffer("bank", torch.minimum(up, down).clamp_min(0))
        # exponential smoothing over frames written as one triangular matrix
        frames = RATE * SECONDS // hop + 1
        t = torch.arange(frames)
        lag = (t[:, None] - t[None, :]).float()
        s = 0.025
        self.register_buffer("smooth", torch.where(lag >= 0, s * (1 - s) ** lag.clamp_min(0), 0.0))
        self.gain = nn.Parameter(torch.full((n_mels, 1), 0.8))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        energy = self.bank @ spec.abs().square()
        level = energy @ self.smooth.T
        return ((energy / (1e-6 + level) ** self.gain + 2.0).sqrt() - 2.0**0.5).unsqueeze(1)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride=stride, bias=False)
        self.se = nn.Sequential(
            nn.Linear(cout, cout // 8), nn.ReLU(), nn.Linear(cout // 8, cout), nn.Sigmoid()
        )

    def forward(self, x):
        y = F.silu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y = y * self.se(y.mean((2, 3)))[:, :, None, None]
        return F.silu(y + self.skip(x))


class CallDetector(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.front = PcenFrontEnd()
        self.stem = nn.Conv2d(1, width, 5, stride=(2, 2), padding=2)
        chans = [width, width * 2, width * 4, width * 8]
        self.blocks = nn.Sequential(*[Block(a, b, 2) for a, b in zip([width] + chans[:-1], chans)])
        self.attend = nn.Conv1d(chans[-1], len(CALLS), 1)
        self.classify = nn.Conv1d(chans[-1], len(CALLS), 1)

    def forward(self, pcm):
        wave = pcm.float() / 32768.0
        wave = wave - wave.mean(dim=1, keepdim=True)
        x = self.blocks(self.stem(self.front(wave))).mean(2)
        attention = self.attend(x).softmax(-1)
        return (attention * self.classify(x)).sum(-1).sigmoid()


def buoys(inbox, n_clips):
    """Plays n_clips clips from a small bank of recordings into the inbox."""
    rng = random.Random(4)
    t = torch.arange(RATE * SECONDS) / RATE
    bank = []
    for i in range(48):
        tone = 0.3 * torch.sin(2 * math.pi * (60 + 20 * i + 8 * t) * t) * (torch.sin(2 * t + i) > 0)
        bank.append(((tone + 0.1 * torch.randn_like(t)) * 20000).clamp(-32768, 32767).short())
    for n in range(n_clips):
        inbox.put((f"buoy-{rng.randrange(40):02d}", time.perf_counter(), rng.choice(bank)))
    inbox.put(None)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--clips", type=int, default=60_000)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--threshold", type=float, default=0.52)
    args = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = CallDetector().eval().to(device)
    detect = torch.compile(model, fullgraph=True)

    with torch.inference_mode():  # warm up before opening the port
        detect(torch.zeros(args.batch, RATE * SECONDS, dtype=torch.int16, device=device)).cpu()

    inbox = queue.Queue(maxsize=4 * args.batch)
    threading.Thread(target=buoys, args=(inbox, args.clips), daemon=True).start()
    alerts, waits, served, open_ = {c: 0 for c in CALLS}, [], 0, True
    start = time.perf_counter()
    while open_:
        batch = []
        while len(batch) < args.batch:
            item = inbox.get()
            if item is None:
                open_ = False
                break
            batch.append(item)
        if not batch:
            break
        pcm = torch.zeros(args.batch, RATE * SECONDS, dtype=torch.int16)  # pad to the full batch
        for row, (_, _, clip) in enumerate(batch):
            pcm[row] = clip
        with torch.inference_mode():
            scores = detect(pcm.to(device)).cpu()
        now = time.perf_counter()
        for (buoy, arrived, _), row in zip(batch, scores.tolist()):
            waits.append(now - arrived)
            for call, p in zip(CALLS, row):
                alerts[call] += p > args.threshold
        served += len(batch)
    took = time.perf_counter() - start
    waits.sort()
    print(
        f"{served} clips in {took:.1f} s = {served / took:.0f}/s, median wait {1e3 * waits[len(waits) // 2]:.1f} ms, "
        f"p99 {1e3 * waits[int(0.99 * len(waits))]:.1f} ms"
    )
    print("alerts:", alerts)


if __name__ == "__main__":
    main()
