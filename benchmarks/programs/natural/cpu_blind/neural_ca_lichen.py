"""Growing neural cellular automaton: learns a local rule whose colony grows to a lichen rosette.

After Mordvintsev et al. 2020: fixed Sobel perception, a small per-cell network, stochastic
update, alive-masking, a pool of states so that the pattern is persistent, random number of CA
steps per training iteration, and normalised gradients.
"""

import copy
import math
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

GRID = 40
CHANNELS = 12
HIDDEN = 64
BATCH = 6
POOL = 128
ITERATIONS = 56
MIN_STEPS, MAX_STEPS = 7, 17


def lichen_target(size=GRID):
    """RGBA rosette: lobed thallus with a pale rim and darker apothecia."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    r, a = torch.sqrt(x * x + y * y), torch.atan2(y, x)
    edge = 0.62 + 0.07 * torch.sin(7 * a) + 0.04 * torch.sin(13 * a + 1)
    alpha = torch.sigmoid((edge - r) * 30)
    rim = torch.exp(-(((r - edge + 0.1) / 0.06) ** 2))
    spots = torch.sigmoid((torch.sin(14 * x + 1) * torch.sin(13 * y) - 0.55) * 12) * (r < 0.4)
    rgb = torch.stack(
        [0.55 + 0.3 * rim - 0.2 * spots, 0.62 + 0.25 * rim - 0.4 * spots, 0.35 + 0.3 * rim - 0.2 * spots]
    )
    return torch.cat([rgb.clamp(0, 1) * alpha, alpha[None]])


class LichenCA(nn.Module):
    def __init__(self, channels=CHANNELS, hidden=HIDDEN, fire_rate=0.5):
        super().__init__()
        self.channels = channels
        self.fire_rate = fire_rate
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1.0
        sobel = torch.outer(torch.tensor([1.0, 2.0, 1.0]), torch.tensor([-1.0, 0.0, 1.0])) / 8
        kernel = torch.stack([ident, sobel, sobel.T]).repeat(channels, 1, 1)[:, None]
        self.register_buffer("kernel", kernel)
        self.w1 = nn.Conv2d(3 * channels, hidden, 1)
        self.w2 = nn.Conv2d(hidden, channels, 1, bias=False)
        nn.init.zeros_(self.w2.weight)

    @staticmethod
    def alive(x):
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1

    def step(self, x):
        before = self.alive(x)
        p = F.conv2d(x, self.kernel, padding=1, groups=self.channels)
        dx = self.w2(F.relu(self.w1(p)))
        mask = (torch.rand_like(x[:, :1]) < self.fire_rate).to(x.dtype)
        x = x + dx * mask
        return x * (before & self.alive(x)).to(x.dtype)

    def forward(self, x, steps):
        """Lets the colony grow for a number of CA steps."""
        for _ in range(steps):
            x = self.step(x)
        return x


def seed_state(n):
    s = torch.zeros(n, CHANNELS, GRID, GRID)
    s[:, 3:, GRID // 2, GRID // 2] = 1.0
    return s


def damage(x, gen):
    """Scrapes a disc out of some samples (regeneration)."""
    n = x.shape[0]
    c = torch.rand(n, 2, 1, 1, generator=gen) * 1.2 - 0.6
    y, xx = torch.meshgrid(torch.linspace(-1, 1, GRID), torch.linspace(-1, 1, GRID), indexing="ij")
    hole = ((y[None] - c[:, 0]) ** 2 + (xx[None] - c[:, 1]) ** 2) < 0.08
    return x * (~hole)[:, None].to(x.dtype)


def main():
    torch.manual_seed(0)
    random.seed(0)
    gen = torch.Generator().manual_seed(1)
    target = lichen_target()
    ca = LichenCA()
    grow = torch.compile(ca)
    opt = torch.optim.Adam(ca.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [42], gamma=0.3)
    ema = copy.deepcopy(ca)
    pool = seed_state(POOL)
    t0 = time.perf_counter()
    for it in range(ITERATIONS):
        idx = torch.randperm(POOL, generator=gen)[:BATCH]
        x = pool[idx]
        with torch.no_grad():
            order = ((x[:, :4] - target) ** 2).mean((1, 2, 3)).argsort(descending=True)
            x, idx = x[order], idx[order]
            x[0] = seed_state(1)[0]
            if it > 30:
                x[-2:] = damage(x[-2:], gen)
        out = grow(x, random.randint(MIN_STEPS, MAX_STEPS))
        loss = F.mse_loss(out[:, :4], target.expand(BATCH, -1, -1, -1))
        loss = loss + 1e-3 * F.relu(out.abs() - 2.0).mean()
        opt.zero_grad()
        loss.backward()
        for p in ca.parameters():
            if p.grad is not None:
                p.grad.div_(p.grad.norm() + 1e-8)
        opt.step()
        sched.step()
        with torch.no_grad():
            for pe, p in zip(ema.parameters(), ca.parameters()):
                pe.lerp_(p, 0.05)
        pool[idx] = out.detach()
        if (it + 1) % 10 == 0:
            dt = (time.perf_counter() - t0) / (it + 1)
            print(f"iter {it + 1:4d}  log10 loss {math.log10(loss.item()):.3f}  {dt * 1e3:.0f} ms/iter")

    with torch.no_grad():
        x = ema(seed_state(1), 40)
        cover = (x[0, 3] > 0.1).float().mean().item()
        print(
            f"EMA colony after 40 steps covers {100 * cover:.1f} % of the dish "
            f"(target {100 * (target[3] > 0.1).float().mean().item():.1f} %)"
        )
    assert math.isfinite(loss.item())


if __name__ == "__main__":
    main()
