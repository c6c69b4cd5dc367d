"""Seismic phase classifier (noise / P / S on three-component traces) and Captum attributions of its decisions."""

import statistics
import time

import torch
import torch.nn as nn
from captum.attr import IntegratedGradients, Occlusion

CLASSES = ("noise", "P", "S")
LENGTH = 400


def traces(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(LENGTH) / 100.0
    y = torch.randint(0, 3, (n,), generator=g)
    onset = 1.2 + 1.2 * torch.rand(n, 1, generator=g)
    freq = torch.where(y == 1, 8.0, 3.5)[:, None] * (0.8 + 0.4 * torch.rand(n, 1, generator=g))
    dt = (t[None] - onset).clamp_min(0)
    wave = torch.exp(-1.5 * dt) * torch.sin(2 * torch.pi * freq * dt) * (dt > 0)
    pol = torch.where((y == 1)[:, None], torch.tensor([[1.0, 0.25, 0.25]]), torch.tensor([[0.3, 0.9, 0.8]]))
    x = pol[:, :, None] * wave[:, None] * (y > 0)[:, None, None]
    x = x * (0.5 + torch.rand(n, 1, 1, generator=g)) + 0.25 * torch.randn(n, 3, LENGTH, generator=g)
    return x / x.abs().amax((1, 2), keepdim=True), y, onset.squeeze(1)


class Block(nn.Module):
    def __init__(self, ci, co, stride):
        super().__init__()
        self.a = nn.Conv1d(ci, co, 7, stride=stride, padding=3)
        self.b = nn.Conv1d(co, co, 5, padding=2)
        self.na, self.nb = nn.BatchNorm1d(co), nn.BatchNorm1d(co)
        self.skip = nn.Conv1d(ci, co, 1, stride=stride) if stride > 1 or ci != co else nn.Identity()

    def forward(self, x):
        h = torch.relu(self.na(self.a(x)))
        return torch.relu(self.nb(self.b(h)) + self.skip(x))


class PhaseNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.Sequential(
            Block(3, width, 1),
            Block(width, width, 2),
            Block(width, 2 * width, 2),
            Block(2 * width, 2 * width, 2),
        )
        self.query = nn.Conv1d(2 * width, 2, 1)
        self.out = nn.Linear(4 * width, 3)

    def forward(self, x):
        h = self.blocks(x)
        att = self.query(h).softmax(-1)
        return self.out(torch.einsum("bkt,bct->bkc", att, h).flatten(1))


def train(net, steps=60):
    x, y, _ = traces(1600, 1)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(3)
    for _ in range(steps):
        i = torch.randint(0, len(x), (32,), generator=g)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x[i]), y[i])
        loss.backward()
        opt.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    model = PhaseNet()
    net = torch.compile(model)
    last = train(net)
    model.eval()

    x, y, onset = traces(120, 2)
    with torch.no_grad():
        pred = net(x).argmax(1)
    print(f"final loss {last:.4f}, test accuracy {(pred == y).float().mean():.3f}")

    # why did the network call it a P or an S?
    ig = IntegratedGradients(net)
    took, maps, deltas = [], [], []
    for k in range(0, 120, 4):
        t0 = time.perf_counter()
        att, delta = ig.attribute(
            x[k : k + 4],
            target=pred[k : k + 4],
            n_steps=20,
            internal_batch_size=32,
            return_convergence_delta=True,
        )
        took.append(time.perf_counter() - t0)
        maps.append(att)
        deltas.append(delta)
    maps = torch.cat(maps)
    centre = (maps.abs().sum(1) * torch.arange(LENGTH)).sum(1) / maps.abs().sum((1, 2)) / 100
    for c in (1, 2):
        m = pred == c
        print(
            f"{CLASSES[c]}: {int(m.sum())} picks, attribution lag behind the onset "
            f"{(centre - onset)[m].mean():.3f} s, per component {maps[m].abs().mean((0, 2)).tolist()}"
        )
    print(f"mean |delta| {torch.cat(deltas).abs().mean():.5f}")

    occ = Occlusion(net)
    i = (pred > 0).nonzero().squeeze(1)[:16]
    drop = occ.attribute(x[i], sliding_window_shapes=(3, 40), strides=(3, 40), target=pred[i])
    print("occlusion peak at %.2f s on average" % (drop[:, 0].argmax(1).float().mean() / 100))
    print("median %.1f ms per explained batch" % (1e3 * statistics.median(took)))


if __name__ == "__main__":
    main()
