"""Small U-Net with transposed convolutions, dice plus cross entropy, SGD."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def double(inp, out):
    return nn.Sequential(
        nn.Conv2d(inp, out, 3, padding=1),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, ch=32, classes=4):
        super().__init__()
        self.d1, self.d2, self.d3 = double(1, ch), double(ch, 2 * ch), double(2 * ch, 4 * ch)
        self.u2 = nn.ConvTranspose2d(4 * ch, 2 * ch, 2, 2)
        self.c2 = double(4 * ch, 2 * ch)
        self.u1 = nn.ConvTranspose2d(2 * ch, ch, 2, 2)
        self.c1 = double(2 * ch, ch)
        self.out = nn.Conv2d(ch, classes, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        c = self.d3(self.pool(b))
        x = self.c2(torch.cat([self.u2(c), b], 1))
        x = self.c1(torch.cat([self.u1(x), a], 1))
        return self.out(x)


def dice_loss(logits, target, eps=1.0):
    prob = logits.softmax(1)
    onehot = F.one_hot(target, logits.shape[1]).permute(0, 3, 1, 2).to(prob.dtype)
    inter = (prob * onehot).sum((0, 2, 3))
    total = prob.sum((0, 2, 3)) + onehot.sum((0, 2, 3))
    return 1 - ((2 * inter + eps) / (total + eps)).mean()


def build(device, compiled):
    torch.manual_seed(0)
    model = UNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    side = pick(192, 32)
    x = torch.randn(pick(8, 2), 1, side, side, device=device)
    y = torch.randint(4, (x.shape[0], side, side), device=device)

    def loss_fn(x, y):
        logits = model(x)
        return dice_loss(logits, y) + F.cross_entropy(logits, y)

    if compiled:
        loss_fn = torch.compile(loss_fn, backend=BACKEND)

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
