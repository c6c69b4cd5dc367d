"""Convolutional classifier trained with mixup, input noise, dropout2d and stochastic depth."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def mixup(x, y, classes, alpha=0.4):
    lam = torch.rand(x.shape[0], device=x.device) * alpha
    perm = torch.randperm(x.shape[0], device=x.device)
    l4 = lam[:, None, None, None]
    onehot = F.one_hot(y, classes).to(x.dtype)
    return x * (1 - l4) + x[perm] * l4, onehot * (1 - lam[:, None]) + onehot[perm] * lam[:, None]


class Block(nn.Module):
    def __init__(self, ch, drop):
        super().__init__()
        self.drop = drop
        self.body = nn.Sequential(
            nn.Conv2d(ch, ch, 3, padding=1, bias=False),
            nn.BatchNorm2d(ch),
            nn.SiLU(),
            nn.Dropout2d(0.1),
            nn.Conv2d(ch, ch, 3, padding=1, bias=False),
            nn.BatchNorm2d(ch),
        )

    def forward(self, x):
        y = self.body(x)
        if self.training:
            keep = (torch.rand(x.shape[0], 1, 1, 1, device=x.device) > self.drop).to(x.dtype)
            y = y * keep / (1 - self.drop)
        return F.silu(x + y)


class Net(nn.Module):
    def __init__(self, ch=64, classes=100):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(ch, 0.05 * (i + 1)) for i in range(3)])
        self.head = nn.Linear(ch, classes)

    def forward(self, x):
        x = x + 0.05 * torch.randn_like(x)
        x = self.blocks(self.stem(x))
        return self.head(F.dropout(x.amax((2, 3)), 0.3, self.training))


def build(device, compiled):
    torch.manual_seed(0)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)

    def loss_fn(x, y):
        x, target = mixup(x, y, 100)
        return F.cross_entropy(model(x), target)

    if compiled:
        loss_fn = torch.compile(loss_fn, backend=BACKEND)
    side = pick(32, 8)
    x = torch.randn(pick(256, 4), 3, side, side, device=device)
    y = torch.randint(100, (x.shape[0],), device=device)

    def step():
        optimizer.zero_grad()
        loss = loss_fn(x, y)
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
