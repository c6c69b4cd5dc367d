"""Gram-matrix style loss with instance norm and total variation, image optimisation."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Features(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)
        self.c3, self.c4 = nn.Conv2d(ch, 2 * ch, 3, padding=1), nn.Conv2d(2 * ch, 2 * ch, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.c1(x))
        b = F.avg_pool2d(F.relu(self.c2(a)), 2)
        c = F.relu(self.c3(F.instance_norm(b)))
        d = F.avg_pool2d(F.relu(self.c4(c)), 2)
        return [a, b, c, d]


def gram(f):
    n, c, h, w = f.shape
    f = f.view(n, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


def loss_fn(net, image, content, styles):
    feats = net(image)
    style = sum(F.mse_loss(gram(f), s) for f, s in zip(feats, styles))
    tv = (image[..., 1:] - image[..., :-1]).abs().mean() + (
        image[..., 1:, :] - image[..., :-1, :]
    ).abs().mean()
    return F.mse_loss(feats[-1], content) + 1e4 * style + 0.1 * tv


def build(device, compiled):
    torch.manual_seed(0)
    net = Features().to(device).requires_grad_(False)
    side = pick(512, 32)
    image = torch.rand(1, 3, side, side, device=device).requires_grad_()
    with torch.no_grad():
        content = net(torch.rand(1, 3, side, side, device=device))[-1]
        styles = [gram(f) for f in net(torch.rand(1, 3, side, side, device=device))]
    optimizer = torch.optim.Adam([image], lr=0.02)
    compute = torch.compile(loss_fn, backend=BACKEND) if compiled else loss_fn

    def step():
        optimizer.zero_grad()
        loss = compute(net, image, content, styles)
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
