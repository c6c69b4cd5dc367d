"""Listening for weevils: acoustic probes in grain bins, scored by a sinc filterbank network (asteroid-filterbanks)."""

import time
from collections import defaultdict

import torch
import torch.nn as nn
from asteroid_filterbanks import Encoder, ParamSincFB
from asteroid_filterbanks.transforms import mag

torch.manual_seed(3)
torch.set_num_threads(2)

RATE = 8000
WINDOW = 2 * RATE
N_BINS = 24
ROUNDS = 90


class DepthwiseUnit(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(cin, cin, 5, padding=2 * dilation, dilation=dilation, groups=cin),
            nn.BatchNorm1d(cin),
            nn.PReLU(),
            nn.Conv1d(cin, cout, 1),
            nn.BatchNorm1d(cout),
            nn.PReLU(),
        )
        self.skip = nn.Identity() if cin == cout else nn.Conv1d(cin, cout, 1)

    def forward(self, x):
        return self.net(x) + self.skip(x)


class WeevilNet(nn.Module):
    def __init__(self, n_filters=64, kernel=129, stride=40):
        super().__init__()
        self.encoder = Encoder(ParamSincFB(n_filters, kernel, stride=stride, sample_rate=RATE))
        half = n_filters // 2
        self.alpha = nn.Parameter(torch.full((half, 1), 0.6))
        self.delta = nn.Parameter(torch.full((half, 1), 0.05))
        self.units = nn.Sequential(
            DepthwiseUnit(half, 64, 1),
            DepthwiseUnit(64, 64, 2),
            DepthwiseUnit(64, 96, 4),
            DepthwiseUnit(96, 96, 8),
        )
        self.attn = nn.Conv1d(96, 1, 1)
        self.head = nn.Linear(2 * 96, 4)  # silent, larvae, adults, machinery

    def forward(self, wav):
        wav = wav - wav.mean(dim=-1, keepdim=True)
        wav = wav / (wav.std(dim=-1, keepdim=True) + 1e-4)
        env = mag(self.encoder(wav))  # (batch, half, frames)
        floor = env.mean(dim=-1, keepdim=True)
        # PCEN-like gain control against the bin's own floor
        x = (env / (floor + 1e-3) ** self.alpha + self.delta.abs()).sqrt() - self.delta.abs().sqrt()
        x = self.units(x)
        w = torch.softmax(self.attn(x), dim=-1)
        mean = (x * w).sum(-1)
        std = ((x * x * w).sum(-1) - mean * mean).clamp(min=1e-6).sqrt()
        return self.head(torch.cat([mean, std], dim=-1))


class Probes:
    """Gives a window for each bin that reported in this round; radio links drop out now and then."""

    def __init__(self, seed=7):
        self.g = torch.Generator().manual_seed(seed)
        self.infested = torch.rand(N_BINS, generator=self.g) < 0.3

    def poll(self):
        up = torch.rand(N_BINS, generator=self.g) > 0.08
        ids = up.nonzero().flatten()
        wav = 0.05 * torch.randn(len(ids), 1, WINDOW, generator=self.g)
        for row, b in enumerate(ids.tolist()):
            if self.infested[b]:
                for at in torch.randint(0, WINDOW - 400, (8,), generator=self.g).tolist():
                    t = torch.arange(400) / RATE
                    wav[row, 0, at : at + 400] += (
                        0.3 * torch.exp(-t * 180) * torch.sin(2 * torch.pi * 1700 * t)
                    )
        return ids.tolist(), wav


def main():
    net = WeevilNet().eval()
    score = torch.compile(net)
    probes = Probes()
    history = defaultdict(list)
    slowest = 0.0
    with torch.inference_mode():
        for r in range(ROUNDS):
            ids, wav = probes.poll()
            t0 = time.perf_counter()
            logits = score(wav)
            if r > 5:
                slowest = max(slowest, time.perf_counter() - t0)
            for b, row in zip(ids, logits.log_softmax(-1)):
                history[b].append(row)
    table = torch.stack([torch.stack(history[b]).mean(0) for b in range(N_BINS)])
    print("rounds", ROUNDS, "windows scored", sum(map(len, history.values())))
    print("mean class log-probabilities", [round(v, 4) for v in table.mean(0).tolist()])
    print(f"infested {int(probes.infested.sum())} bins; spread of scores {table.std(0).mean():.4f}")
    print(f"slowest round {1e3 * slowest:.0f} ms")


if __name__ == "__main__":
    main()
