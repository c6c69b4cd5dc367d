"""One-dimensional U-Net on ECG segments with linear upsampling, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def block(inp, out, k=9):
    return nn.Sequential(
        nn.Conv1d(inp, out, k, padding=k // 2),
        nn.BatchNorm1d(out),
        nn.ReLU(),
        nn.Conv1d(out, out, k, padding=k // 2),
        nn.BatchNorm1d(out),
        nn.ReLU(),
    )


class UNet1d(nn.Module):
    def __init__(self, ch=8, classes=4):
        super().__init__()
        self.d1, self.d2, self.d3 = block(1, ch), block(ch, 2 * ch), block(2 * ch, 4 * ch)
        self.u2, self.u1 = block(6 * ch, 2 * ch), block(3 * ch, ch)
        self.out = nn.Conv1d(ch, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool1d(a, 4))
        c = self.d3(F.max_pool1d(b, 4))
        b = self.u2(torch.cat([F.interpolate(c, size=b.shape[-1], mode="linear", align_corners=True), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, size=a.shape[-1], mode="linear", align_corners=True), a], 1))
        return self.out(a)


def build(device, compiled):
    torch.manual_seed(0)
    model = UNet1d().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(pick(8, 2), 1, pick(1600, 64), device=device)
    y = torch.randint(4, (x.shape[0], x.shape[2]), device=device)
    weight = torch.tensor([0.5, 1.0, 1.0, 2.0], device=device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y, weight=weight)
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
