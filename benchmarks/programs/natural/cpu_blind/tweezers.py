"""Calibration of an optical-tweezers array by simulated thermal motion.

Overdamped Langevin dynamics of many independent trapped beads, with a camera that
integrates over the exposure and adds read noise.  Trap stiffness is recovered
from the equipartition theorem, corrected for motion blur and read noise.
"""

import time
from dataclasses import dataclass

import torch

torch.set_num_threads(2)


@dataclass
class Setup:
    beads: int = 40_000
    substeps: int = 8
    dt: float = 5.0e-4  # s
    kT: float = 4.11e-3  # pN um
    gamma: float = 9.4e-3  # pN s / um
    anharmonic: float = 0.02  # relative quartic softening
    read_noise: float = 0.004  # um
    frames: int = 120
    burn_in: int = 60


class TrapArray:
    def __init__(self, cfg: Setup, seed: int = 11):
        self.cfg = cfg
        g = torch.Generator().manual_seed(seed)
        n = cfg.beads
        self.kx = 0.6 + 0.5 * torch.rand(n, generator=g)
        self.ky = self.kx * (0.85 + 0.1 * torch.rand(n, generator=g))
        self.x = torch.zeros(n)
        self.y = torch.zeros(n)
        self.drift = 1e-3 * torch.randn(n, generator=g)

    def force(self, x, y):
        r2 = x * x + y * y
        soft = 1.0 - self.cfg.anharmonic * r2 / (r2 + 0.05)
        return -self.kx * x * soft, -self.ky * y * soft

    @torch.compile
    def expose(self, x, y):
        """Advance one camera exposure, return new positions and recorded ones."""
        cfg = self.cfg
        mob = cfg.dt / cfg.gamma
        kick = (2.0 * cfg.kT * cfg.dt / cfg.gamma) ** 0.5
        acc_x = torch.zeros_like(x)
        acc_y = torch.zeros_like(y)
        for _ in range(cfg.substeps):
            fx, fy = self.force(x, y)
            x = x + mob * (fx + self.drift) + kick * torch.randn_like(x)
            y = y + mob * fy + kick * torch.randn_like(y)
            acc_x = acc_x + x
            acc_y = acc_y + y
        seen_x = acc_x / cfg.substeps + cfg.read_noise * torch.randn_like(x)
        seen_y = acc_y / cfg.substeps + cfg.read_noise * torch.randn_like(y)
        return x, y, seen_x, seen_y


class Moments:
    """Streaming mean and variance per bead."""

    def __init__(self, n):
        self.count = 0
        self.mean = torch.zeros(n)
        self.m2 = torch.zeros(n)

    def update(self, v):
        self.count += 1
        delta = v - self.mean
        self.mean += delta / self.count
        self.m2 += delta * (v - self.mean)

    @property
    def var(self):
        return self.m2 / (self.count - 1)


def blur_factor(k, cfg):
    """Variance reduction by averaging over the exposure (Wong and Halvorsen)."""
    a = k * cfg.substeps * cfg.dt / cfg.gamma
    return 2.0 / a - 2.0 / a**2 * (1.0 - torch.exp(-a))


def estimate(var, cfg, iters=8):
    true_var = (var - cfg.read_noise**2).clamp_min(1e-7)
    k = cfg.kT / true_var
    for _ in range(iters):
        k = cfg.kT * blur_factor(k, cfg) / true_var
    return k


def main():
    torch.manual_seed(0)
    cfg = Setup()
    traps = TrapArray(cfg)
    mx, my = Moments(cfg.beads), Moments(cfg.beads)

    with torch.no_grad():
        x, y = traps.x, traps.y
        for _ in range(cfg.burn_in):
            x, y, _, _ = traps.expose(x, y)

        spent = 0.0
        for _ in range(cfg.frames):
            t0 = time.perf_counter()
            x, y, sx, sy = traps.expose(x, y)
            spent += time.perf_counter() - t0
            mx.update(sx)
            my.update(sy)

    kx = cfg.kT / (cfg.kT / estimate(mx.var, cfg)).mean()
    ref = 1.0 / (1.0 / traps.kx).mean()
    ratio = (estimate(my.var, cfg).median() / estimate(mx.var, cfg).median()).item()
    print(f"stiffness x: estimated {kx:.4f}, set {ref:.4f} pN/um; y/x ratio {ratio:.3f}")
    assert abs(kx / ref - 1) < 0.08
    assert 0.8 < ratio < 1.0
    print(f"time per exposure: {1e3 * spent / cfg.frames:.2f} ms")


if __name__ == "__main__":
    main()
