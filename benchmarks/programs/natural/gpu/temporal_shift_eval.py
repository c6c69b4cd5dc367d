"""Temporal shift module with 2-d convolutions, max pooling and segment consensus."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class TSM(nn.Module):
    def __init__(self, segments, fold=8):
        super().__init__()
        self.segments, self.fold = segments, fold

    def forward(self, x):
        nt, c, h, w = x.shape
        x = x.view(-1, self.segments, c, h, w)
        f = c // self.fold
        out = torch.zeros_like(x)
        out[:, :-1, :f] = x[:, 1:, :f]
        out[:, 1:, f : 2 * f] = x[:, :-1, f : 2 * f]
        out[:, :, 2 * f :] = x[:, :, 2 * f :]
        return out.view(nt, c, h, w)


class Block(nn.Module):
    def __init__(self, ch, segments):
        super().__init__()
        self.shift = TSM(segments)
        self.c1, self.c2 = (
            nn.Conv2d(ch, ch, 3, padding=1, bias=False),
            nn.Conv2d(ch, ch, 3, padding=1, bias=False),
        )
        self.b1, self.b2 = nn.BatchNorm2d(ch), nn.BatchNorm2d(ch)

    def forward(self, x):
        y = F.relu(self.b1(self.c1(self.shift(x))))
        return F.relu(self.b2(self.c2(y)) + x)


class Net(nn.Module):
    def __init__(self, segments=8, ch=64):
        super().__init__()
        self.segments = segments
        self.stem = nn.Sequential(
            nn.Conv2d(3, ch, 7, 2, 3), nn.BatchNorm2d(ch), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.blocks = nn.Sequential(
            Block(ch, segments), Block(ch, segments), nn.MaxPool2d(2), Block(ch, segments)
        )
        self.head = nn.Linear(ch, 174)

    def forward(self, clips):
        n, t = clips.shape[:2]
        x = self.blocks(self.stem(clips.flatten(0, 1)))
        x = self.head(x.mean((2, 3)))
        return x.view(n, t, -1).mean(1).softmax(-1)


def build(device, compiled):
    torch.manual_seed(0)
    model = Net().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    side = pick(224, 32)
    clips = torch.randn(pick(8, 1), 8, 3, side, side, device=device)

    @torch.inference_mode()
    def step():
        return model(clips)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
