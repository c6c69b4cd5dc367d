"""Small convolutional net on digits, SGD training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 16, 5, padding=2), nn.Conv2d(16, 32, 5)
        self.f1, self.f2, self.f3 = nn.Linear(32 * 25, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.c1(x)), 2)
        x = F.max_pool2d(torch.tanh(self.c2(x)), 2)
        x = torch.tanh(self.f1(x.flatten(1)))
        return self.f3(torch.tanh(self.f2(x)))


def build(device, compiled):
    torch.manual_seed(0)
    model = LeNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.rand(pick(64, 4), 1, 28, 28, device=device)
    y = torch.randint(10, (x.shape[0],), device=device)

    def step():
        optimizer.zero_grad()
        loss = F.nll_loss(forward(x).log_softmax(1), y)
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
