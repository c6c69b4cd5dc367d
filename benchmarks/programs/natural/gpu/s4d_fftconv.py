"""Diagonal state-space layers as long convolutions by FFT, training."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class S4D(nn.Module):
    def __init__(self, dim, state=32):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(dim) * 4 - 7)
        self.log_re = nn.Parameter(torch.log(0.5 * torch.ones(dim, state)))
        self.im = nn.Parameter(math.pi * torch.arange(state).float().repeat(dim, 1))
        self.c = nn.Parameter(torch.randn(dim, state, 2) * 0.5**0.5)
        self.skip = nn.Parameter(torch.randn(dim))

    def kernel(self, length):
        dt = self.log_dt.exp()[:, None]
        re, im = -self.log_re.exp() * dt, self.im * dt
        t = torch.arange(length, device=dt.device)
        mag = torch.exp(re[..., None] * t)
        phase = im[..., None] * t
        return 2 * (mag * (self.c[..., :1] * phase.cos() - self.c[..., 1:] * phase.sin())).sum(1)

    def forward(self, u):
        length = u.shape[-1]
        k = self.kernel(length)
        y = torch.fft.irfft(torch.fft.rfft(u, 2 * length) * torch.fft.rfft(k, 2 * length), 2 * length)[
            ..., :length
        ]
        return y + u * self.skip[:, None]


class Net(nn.Module):
    def __init__(self, dim=128, depth=2):
        super().__init__()
        self.enc = nn.Linear(1, dim)
        self.layers = nn.ModuleList([S4D(dim) for _ in range(depth)])
        self.mix = nn.ModuleList([nn.Conv1d(dim, 2 * dim, 1) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        x = self.enc(x).transpose(1, 2)
        for layer, mix, norm in zip(self.layers, self.mix, self.norms):
            y = F.glu(mix(F.gelu(layer(x))), dim=1)
            x = norm((x + y).transpose(1, 2)).transpose(1, 2)
        return self.head(x.mean(-1))


def build(device, compiled):
    torch.manual_seed(0)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(pick(16, 2), pick(1024, 32), 1, device=device)
    y = torch.randint(10, (x.shape[0],), device=device)

    def step():
        loss = F.cross_entropy(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
