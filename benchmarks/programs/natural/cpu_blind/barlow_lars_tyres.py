"""Self-supervised pretraining on tyre tread images: Barlow Twins loss with the LARS optimiser."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
BATCH, SIZE, STEPS = 64, 48, 40


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class Twins(nn.Module):
    def __init__(self, dim=256, lambd=0.005):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU())
        self.body = nn.Sequential(Block(24, 24, 1), Block(24, 48, 2), Block(48, 96, 2), Block(96, 128, 2))
        self.projector = nn.Sequential(
            nn.Linear(128, dim, bias=False),
            nn.BatchNorm1d(dim),
            nn.ReLU(),
            nn.Linear(dim, dim, bias=False),
            nn.BatchNorm1d(dim),
            nn.ReLU(),
            nn.Linear(dim, dim, bias=False),
        )
        self.bn = nn.BatchNorm1d(dim, affine=False)
        self.lambd = lambd

    def encode(self, x):
        return self.body(self.stem(x)).mean((2, 3))

    def forward(self, y1, y2):
        z1 = self.projector(self.encode(y1))
        z2 = self.projector(self.encode(y2))
        c = self.bn(z1).T @ self.bn(z2) / z1.shape[0]
        on_diag = (torch.diagonal(c) - 1).pow(2).sum()
        n = c.shape[0]
        off_diag = c.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten().pow(2).sum()
        return on_diag + self.lambd * off_diag


@torch.compile
def lars_update(params, grads, moms, lr, weight_decay, momentum, eta):
    for p, g, m in zip(params, grads, moms):
        step = g
        if p.ndim > 1:
            step = g + weight_decay * p
            pn = torch.norm(p)
            un = torch.norm(step)
            q = torch.where(
                pn > 0, torch.where(un > 0, eta * pn / un, torch.ones_like(pn)), torch.ones_like(pn)
            )
            step = step * q
        m.mul_(momentum).add_(step)
        p.sub_(lr * m)


class LARS:
    def __init__(self, params, weight_decay=1e-4, momentum=0.9, eta=0.02):
        self.params = list(params)
        self.moms = [torch.zeros_like(p) for p in self.params]
        self.cfg = (weight_decay, momentum, eta)

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self, lr):
        lars_update(self.params, [p.grad for p in self.params], self.moms, lr, *self.cfg)


def schedule(step, warmup=8, base=0.4):
    if step < warmup:
        return base * (step + 1) / warmup
    t = (step - warmup) / (STEPS - warmup)
    return base * 0.5 * (1 + math.cos(math.pi * t)) + 0.001


def tread_images(n):
    y, x = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    freq = 0.2 + 0.6 * torch.rand(n, 1, 1)
    slant = 2 * torch.rand(n, 1, 1) - 1
    groove = torch.sign(torch.sin(freq * (y + slant * (x - 32).abs())))
    return (groove * 0.5 + 0.1 * torch.randn(n, 64, 64)).unsqueeze(1)


def augment(x):
    out = []
    for img in x:
        top, left = torch.randint(0, 64 - SIZE, (2,)).tolist()
        crop = img[:, top : top + SIZE, left : left + SIZE]
        if torch.rand(()) < 0.5:
            crop = crop.flip(-1)
        out.append(crop)
    x = torch.stack(out)
    gain = 0.6 + 0.8 * torch.rand(x.shape[0], 1, 1, 1)
    return x * gain + 0.1 * torch.randn_like(x)


def main():
    data = tread_images(1024)
    model = Twins()
    model.compile()
    opt = LARS(model.parameters())
    for step in range(STEPS):
        idx = torch.randint(0, len(data), (BATCH,))
        x = data[idx]
        loss = model(augment(x), augment(x))
        opt.zero_grad()
        loss.backward()
        opt.step(schedule(step))
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  loss {loss.item():.3f}  lr {schedule(step):.4f}")
    model.eval()
    with torch.no_grad():
        feats = F.normalize(model.encode(data[:256, :, :SIZE, :SIZE]), dim=1)
    print(f"mean similarity {(feats @ feats.T).mean():.4f}")


if __name__ == "__main__":
    main()
