"""Dilated causal temporal convolution network with weight norm, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Causal(nn.Module):
    def __init__(self, inp, out, dilation, k=3):
        super().__init__()
        self.pad = (k - 1) * dilation
        self.c1 = nn.utils.parametrizations.weight_norm(nn.Conv1d(inp, out, k, dilation=dilation))
        self.c2 = nn.utils.parametrizations.weight_norm(nn.Conv1d(out, out, k, dilation=dilation))
        self.skip = nn.Conv1d(inp, out, 1) if inp != out else nn.Identity()

    def forward(self, x):
        y = F.dropout(F.relu(self.c1(F.pad(x, (self.pad, 0)))), 0.1, self.training)
        y = F.dropout(F.relu(self.c2(F.pad(y, (self.pad, 0)))), 0.1, self.training)
        return F.relu(y + self.skip(x))


def build(device, compiled):
    torch.manual_seed(0)
    model = nn.Sequential(
        Causal(4, 32, 1), Causal(32, 32, 2), Causal(32, 32, 4), Causal(32, 32, 8), nn.Conv1d(32, 1, 1)
    ).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x, y = (
        torch.randn(pick(16, 2), 4, pick(256, 32), device=device),
        torch.randn(pick(16, 2), 1, pick(256, 32), device=device),
    )

    def step():
        loss = F.mse_loss(forward(x), y)
        optimizer.zero_grad()
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
