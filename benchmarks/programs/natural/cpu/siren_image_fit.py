"""Sinusoidal network fitted to an image with gradient supervision."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Sine(nn.Module):
    def __init__(self, inp, out, omega=30.0, first=False):
        super().__init__()
        self.lin, self.omega = nn.Linear(inp, out), omega
        bound = 1 / inp if first else (6 / inp) ** 0.5 / omega
        nn.init.uniform_(self.lin.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.lin(x))


def build(device, compiled):
    torch.manual_seed(0)
    model = nn.Sequential(Sine(2, 128, first=True), Sine(128, 128), Sine(128, 128), nn.Linear(128, 3)).to(
        device
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    side = pick(64, 8)
    g = torch.linspace(-1, 1, side, device=device)
    coords = torch.stack(torch.meshgrid(g, g, indexing="ij"), -1).view(-1, 2)
    image = torch.rand(side * side, 3, device=device)

    def loss_fn(coords, image):
        pred = model(coords)
        p, t = pred.view(side, side, 3), image.view(side, side, 3)
        grad = (p[1:] - p[:-1] - (t[1:] - t[:-1])).abs().mean() + (
            p[:, 1:] - p[:, :-1] - (t[:, 1:] - t[:, :-1])
        ).abs().mean()
        return F.mse_loss(pred, image) + 0.1 * grad

    if compiled:
        loss_fn = torch.compile(loss_fn, backend=BACKEND)

    def step():
        optimizer.zero_grad()
        loss = loss_fn(coords, image)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
