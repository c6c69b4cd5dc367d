"""Train a two-sided coin grader.

Every coin comes as an obverse and a reverse photograph; a shared residual trunk looks at both, and an ordinal
(CORAL) head predicts the Sheldon grade in ten steps. The photographs are rendered here: a disc with a relief, worn
down with the grade, and scratches and bag marks on top. Weights are averaged over training and the average is what
is evaluated.
"""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
GPU = device == "cuda"
SIZE = 128 if GPU else 48
BATCH = 96 if GPU else 8
STEPS = 220 if GPU else 16
WIDTHS = (64, 128, 256, 384) if GPU else (8, 16, 24)
DEPTH = 2 if GPU else 1
GRADES = 10
N_COINS = 3072 if GPU else 96


def render_coins(n, gen):
    """uint8 photographs [n, 2, 3, SIZE, SIZE] and their grades."""
    ax = torch.linspace(-1, 1, SIZE, device=device)
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")
    rad, ang = torch.sqrt(xx**2 + yy**2), torch.atan2(yy, xx)
    grade = torch.randint(0, GRADES, (n,), generator=gen, device=device)
    out = torch.empty(n, 2, 3, SIZE, SIZE, dtype=torch.uint8, device=device)
    for lo in range(0, n, 256):
        g = grade[lo : lo + 256]
        m = g.numel()
        par = torch.rand(m, 2, 6, 1, 1, generator=gen, device=device)
        relief = torch.cos(ang * (3 + 9 * par[:, :, 0]) + 7 * par[:, :, 1]) * torch.cos(
            rad * (10 + 14 * par[:, :, 2])
        )
        sharp = (0.15 + 0.85 * g / (GRADES - 1)).view(-1, 1, 1, 1)
        relief = torch.tanh(4 * relief * sharp) * sharp
        marks = torch.rand(m, 2, SIZE, SIZE, generator=gen, device=device) < 0.03 * (1.2 - sharp)
        face = 0.5 + 0.25 * relief + 0.3 * marks.float() + 0.1 * (xx + yy) * par[:, :, 3]
        face = torch.where(rad < 0.92, face, torch.full_like(face, 0.08))
        tone = torch.stack([0.9 + 0.1 * par[:, :, 4], 0.7 + 0.2 * par[:, :, 4], 0.4 + 0.5 * par[:, :, 5]], 2)
        img = face.unsqueeze(2) * tone
        img = img + 0.02 * torch.randn(img.shape, generator=gen, device=device)
        out[lo : lo + 256] = (img.clamp(0, 1) * 255).to(torch.uint8)
    return out, grade


class SqueezeGate(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.down, self.up = nn.Conv2d(ch, ch // 4, 1), nn.Conv2d(ch // 4, ch, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(F.silu(self.down(s))))


class Block(nn.Module):
    def __init__(self, cin, cout, stride, drop):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.gate = SqueezeGate(cout)
        self.pool = nn.AvgPool2d(2) if stride == 2 else nn.Identity()
        self.skip = nn.Identity() if cin == cout else nn.Conv2d(cin, cout, 1, bias=False)
        self.drop = drop

    def forward(self, x):
        x = self.pool(x)
        y = F.silu(self.bn1(self.conv1(x)))
        y = self.gate(self.bn2(self.conv2(y)))
        if self.training and self.drop > 0:
            keep = torch.rand(x.shape[0], 1, 1, 1, device=x.device) >= self.drop
            y = y * keep / (1 - self.drop)
        return F.silu(self.skip(x) + y)


class CoinGrader(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.45, 0.40, 0.33]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.24, 0.22, 0.20]).view(1, 3, 1, 1))
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTHS[0], 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.SiLU()
        )
        blocks, cin = [], WIDTHS[0]
        for i, w in enumerate(WIDTHS):
            for j in range(DEPTH):
                blocks.append(Block(cin, w, 2 if i and j == 0 else 1, 0.05 * i))
                cin = w
        self.blocks = nn.Sequential(*blocks)
        self.side = nn.Linear(2 * cin, cin)
        self.score = nn.Linear(cin, 1, bias=False)
        self.cuts = nn.Parameter(torch.linspace(2, -2, GRADES - 1))

    def forward(self, pair):
        b = pair.shape[0]
        x = (pair.flatten(0, 1) - self.mean) / self.std
        x = self.blocks(self.stem(x.contiguous(memory_format=torch.channels_last)))
        obv, rev = x.mean((2, 3)).view(b, 2, -1).unbind(1)
        h = self.side(torch.cat([obv + rev, (obv - rev).abs()], 1))
        return self.score(F.silu(h)) + self.cuts


def spin(pair, gen):
    """Random rotation and small zoom, the two sides apart."""
    x = pair.flatten(0, 1).float() / 255
    n = x.shape[0]
    a = (torch.rand(n, generator=gen, device=device) - 0.5) * 2 * math.pi
    z = 1 + 0.1 * (torch.rand(n, generator=gen, device=device) - 0.5)
    theta = torch.zeros(n, 2, 3, device=device)
    theta[:, 0, 0], theta[:, 0, 1] = z * a.cos(), -z * a.sin()
    theta[:, 1, 0], theta[:, 1, 1] = z * a.sin(), z * a.cos()
    x = F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)
    return x.view(pair.shape)


def main():
    torch.manual_seed(11)
    gen = torch.Generator(device=device).manual_seed(11)
    photos, grades = render_coins(N_COINS, gen)
    n_val = N_COINS // 8
    levels = (grades.unsqueeze(1) > torch.arange(GRADES - 1, device=device)).float()

    net = CoinGrader().to(device).to(memory_format=torch.channels_last)
    average = copy.deepcopy(net).eval()
    model = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.02)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=STEPS)
    running = 0.0
    for step in range(STEPS):
        pick = torch.randint(n_val, N_COINS, (BATCH,), generator=gen, device=device)
        pair = spin(photos[pick], gen)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(pair)
        loss = F.binary_cross_entropy_with_logits(logits.float(), levels[pick])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        opt.step()
        sched.step()
        with torch.no_grad():
            for pa, p in zip(average.state_dict().values(), net.state_dict().values()):
                if pa.dtype.is_floating_point:
                    pa.lerp_(p, 0.03 if step > 20 else 1.0)
        running += loss.item()
        if (step + 1) % 40 == 0:
            print(f"step {step + 1}: loss {running / 40:.4f}")
            running = 0.0

    err = []
    with torch.no_grad():
        for lo in range(0, n_val, BATCH):
            pred = (average(photos[lo : min(lo + BATCH, n_val)].float() / 255) > 0).sum(1)
            err.append((pred - grades[lo : min(lo + BATCH, n_val)]).abs().float())
    err = torch.cat(err)
    print(f"validation: mean error {err.mean():.3f} grades, within one {(err <= 1).float().mean():.3f}")


if __name__ == "__main__":
    main()
