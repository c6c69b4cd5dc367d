"""Power quality disturbances with hyperdimensional computing (torchhd).

Three-phase voltage windows are encoded into bipolar hypervectors (level x phase binding, n-grams over time); a centroid
classifier names the disturbance: none, sag, swell, harmonics, transient, flicker.
"""

import math

import torch
import torchhd
from torch import nn
from torchhd import embeddings
from torchhd.models import Centroid

DIM = 4096
LEVELS = 33
PHASES = 3
WINDOW = 64
NGRAM = 4
BATCH = 16
CLASSES = ["normal", "sag", "swell", "harmonics", "transient", "flicker"]


def make_windows(n, gen):
    """Two mains cycles of three phases, 32 samples a cycle, one disturbance each."""
    y = torch.randint(0, len(CLASSES), (n,), generator=gen)
    t = torch.arange(WINDOW) / 32.0
    start = torch.randint(0, 4, (n, 1), generator=gen) * 0.05
    x = torch.empty(n, WINDOW, PHASES)
    amount = 0.4 + 0.4 * torch.rand(n, 1, generator=gen)
    onset = torch.rand(n, 1, generator=gen)
    event = ((t >= onset) & (t < onset + 0.9)).float()
    for p in range(PHASES):
        angle = 2 * math.pi * (t + start) - 2 * math.pi * p / 3
        base = torch.sin(angle)
        hit = 1.0 if p == 0 else 0.6
        sag = base * (1 - hit * amount * event)
        swell = base * (1 + 0.7 * hit * amount * event)
        harm = base + 0.35 * hit * amount * torch.sin(5 * angle) + 0.2 * amount * torch.sin(7 * angle)
        trans = base + hit * amount * torch.exp(-8 * (t - onset).clamp_min(0)) * (t > onset) * torch.sin(
            60 * (t - onset)
        )
        flick = base * (1 + 0.3 * amount * torch.sin(2 * math.pi * 0.4 * t + 6 * onset))
        stack = torch.stack([base, sag, swell, harm, trans, flick], 0)
        x[:, :, p] = stack[y, torch.arange(n)]
    return x + 0.02 * torch.randn(x.shape, generator=gen), y


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.phases = embeddings.Random(PHASES, DIM)
        self.levels = embeddings.Level(LEVELS, DIM, low=-1.6, high=1.6)

    def forward(self, x):
        signal = self.levels(x)  # (b, window, phases, dim)
        samples = torchhd.bind(signal, self.phases.weight.unsqueeze(0))
        samples = torchhd.multiset(samples)  # (b, window, dim)
        hv = torchhd.ngrams(samples, n=NGRAM)
        return torchhd.normalize(hv)


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(3)
    train_x, train_y = make_windows(640, gen)
    test_x, test_y = make_windows(320, gen)

    encoder = Encoder()
    encode = torch.compile(encoder)
    model = Centroid(DIM, len(CLASSES))

    with torch.no_grad():
        for x, y in zip(train_x.split(BATCH), train_y.split(BATCH)):
            model.add(encode(x), y)
        model.normalize()

        confusion = torch.zeros(len(CLASSES), len(CLASSES), dtype=torch.long)
        for x, y in zip(test_x.split(BATCH), test_y.split(BATCH)):
            scores = model(encode(x), dot=True)
            guess = scores.argmax(-1)
            for a, b in zip(y.tolist(), guess.tolist()):
                confusion[a, b] += 1

    total = confusion.sum().item()
    print(f"accuracy {confusion.diagonal().sum().item() / total:.3f} on {total} windows")
    for name, row in zip(CLASSES, confusion):
        print(f"{name:10s}", " ".join(f"{v:4d}" for v in row.tolist()))


if __name__ == "__main__":
    main()
