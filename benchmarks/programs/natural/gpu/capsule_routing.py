"""Capsule layer with dynamic routing and a margin loss, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def squash(s):
    n2 = (s**2).sum(-1, keepdim=True)
    return n2 / (1 + n2) * s / torch.sqrt(n2 + 1e-8)


class Capsules(nn.Module):
    def __init__(self, inp, inp_dim, out=10, out_dim=16, rounds=3):
        super().__init__()
        self.rounds = rounds
        self.weight = nn.Parameter(0.05 * torch.randn(out, inp, inp_dim, out_dim))

    def forward(self, u):
        hat = torch.einsum("nid,oidk->noik", u, self.weight)
        frozen = hat.detach()
        b = torch.zeros(hat.shape[:3], device=u.device)
        for r in range(self.rounds):
            c = b.softmax(1)
            use = hat if r == self.rounds - 1 else frozen
            v = squash((c[..., None] * use).sum(2))
            if r < self.rounds - 1:
                b = b + (frozen * v[:, :, None]).sum(-1)
        return v


class CapsNet(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.conv = nn.Conv2d(1, 64, 9)
        self.primary = nn.Conv2d(64, 64, 9, 2)
        left = (side - 8 - 9) // 2 + 1
        self.caps = Capsules(8 * left * left, 8)

    def forward(self, x):
        p = self.primary(F.relu(self.conv(x)))
        n = p.shape[0]
        u = squash(p.view(n, 8, 8, -1).permute(0, 1, 3, 2).reshape(n, -1, 8))
        return self.caps(u).norm(dim=-1)


def margin_loss(length, y):
    t = F.one_hot(y, length.shape[1]).float()
    return (
        (t * (0.9 - length).clamp(min=0) ** 2 + 0.5 * (1 - t) * (length - 0.1).clamp(min=0) ** 2)
        .sum(1)
        .mean()
    )


def build(device, compiled):
    torch.manual_seed(0)
    side = pick(28, 20)
    model = CapsNet(side).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.rand(pick(256, 2), 1, side, side, device=device)
    y = torch.randint(10, (x.shape[0],), device=device)

    def step():
        optimizer.zero_grad()
        loss = margin_loss(forward(x), y)
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
