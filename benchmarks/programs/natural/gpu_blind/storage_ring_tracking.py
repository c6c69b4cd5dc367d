"""Dynamic aperture of a small electron storage ring by 6D particle tracking (thin sextupoles, RF cavity, octupoles).

Coordinates (x, px, y, py, z, delta), double precision, a grid of start amplitudes and momentum offsets.
"""

import math
import time

import torch

device = "cuda"
torch.manual_seed(3)
torch.set_default_dtype(torch.float64)

N_AMP_X = 512
N_AMP_Y = 512
N_DELTA = 12
TURNS = 256
CELLS = 8
APERTURE_X, APERTURE_Y = 0.030, 0.015  # half apertures in metres


class Quad:
    """A thick quadrupole; the strength scales with momentum, to first order in delta."""

    def __init__(self, k1, length):
        w = math.sqrt(abs(k1))
        f = (math.cos(w * length), math.sin(w * length) / w, -w * math.sin(w * length))
        d = (math.cosh(w * length), math.sinh(w * length) / w, w * math.sinh(w * length))
        self.mx, self.my = (f, d) if k1 > 0 else (d, f)
        self.k1l = k1 * length

    def track(self, x, px, y, py, z, delta):
        c, s, m = self.mx
        x, px = c * x + s * px, m * x + c * px
        c, s, m = self.my
        y, py = c * y + s * py, m * y + c * py
        px = px + self.k1l * delta * x
        py = py - self.k1l * delta * y
        return x, px, y, py, z, delta


class Drift:
    def __init__(self, length):
        self.length = length

    def track(self, x, px, y, py, z, delta):
        pz = torch.sqrt((1 + delta) ** 2 - px**2 - py**2)
        x = x + self.length * px / pz
        y = y + self.length * py / pz
        z = z + self.length * (1 - (1 + delta) / pz)
        return x, px, y, py, z, delta


class Bend:
    """A sector bend as matrix with dispersion."""

    def __init__(self, angle, length):
        self.rho = length / angle
        self.angle, self.length = angle, length

    def track(self, x, px, y, py, z, delta):
        c, s, r = math.cos(self.angle), math.sin(self.angle), self.rho
        z = z - s * x - r * (1 - c) * px - (self.length - r * s) * delta
        x, px = c * x + r * s * px + r * (1 - c) * delta, -s / r * x + c * px + s * delta
        y = y + self.length * py
        return x, px, y, py, z, delta


class Multipole:
    def __init__(self, k2l=0.0, k3l=0.0):
        self.k2l, self.k3l = k2l, k3l

    def track(self, x, px, y, py, z, delta):
        px = px - 0.5 * self.k2l * (x * x - y * y) - self.k3l / 6 * (x**3 - 3 * x * y * y)
        py = py + self.k2l * x * y - self.k3l / 6 * (y**3 - 3 * x * x * y)
        return x, px, y, py, z, delta


class Cavity:
    def __init__(self, volt, k_rf):
        self.volt, self.k = volt, k_rf

    def track(self, x, px, y, py, z, delta):
        return x, px, y, py, z, delta + self.volt * torch.sin(self.k * z)


def make_ring():
    cell = [
        Quad(1.2, 0.30),
        Drift(0.25),
        Multipole(k2l=2.1),
        Drift(0.25),
        Bend(2 * math.pi / CELLS / 2, 1.6),
        Drift(0.25),
        Multipole(k2l=-3.4),
        Drift(0.25),
        Quad(-1.1, 0.30),
        Drift(0.5),
        Bend(2 * math.pi / CELLS / 2, 1.6),
        Drift(0.5),
    ]
    ring = []
    for c in range(CELLS):
        ring += cell
        if c % 4 == 0:
            ring.append(Multipole(k3l=15.0))
    ring.append(Cavity(-2e-4, 2 * math.pi * 500e6 / 299792458.0))
    return ring


ring = make_ring()


@torch.compile
def one_turn(coords, alive):
    coords = coords.unbind(0)
    for element in ring:
        coords = element.track(*coords)
    x, px, y, py, z, delta = coords
    inside = (
        (x.abs() < APERTURE_X) & (y.abs() < APERTURE_Y) & (delta.abs() < 0.1) & torch.isfinite(px + py + z)
    )
    alive = alive & inside
    new = torch.where(alive, torch.stack([x, px, y, py, z, delta]), torch.zeros((), device=x.device))
    return new, alive


def main():
    ax = torch.linspace(1e-4, 0.012, N_AMP_X, device=device)
    ay = torch.linspace(1e-4, 0.006, N_AMP_Y, device=device)
    dl = torch.linspace(-0.004, 0.004, N_DELTA, device=device)
    x, y, delta = (g.reshape(-1) for g in torch.meshgrid(ax, ay, dl, indexing="ij"))
    zero = torch.zeros_like(x)
    coords = torch.stack([x, zero, y, zero, zero, delta])
    alive = torch.ones(x.numel(), dtype=torch.bool, device=device)
    print(f"{x.numel() / 1e6:.2f} M particles, {len(ring)} elements")

    probe = N_AMP_Y * N_DELTA * 20 + 20 * N_DELTA + N_DELTA // 2
    bpm = torch.zeros(TURNS, 2, device=device)
    survivors = []
    start = time.time()
    for turn in range(TURNS):
        coords, alive = one_turn(coords, alive)
        bpm[turn, 0] = coords[0, probe]
        bpm[turn, 1] = coords[2, probe]
        if (turn + 1) % 32 == 0:
            survivors.append(alive.double().mean().item())
    print(f"{TURNS} turns in {time.time() - start:.2f} s")
    print("surviving part:", " ".join(f"{s:.4f}" for s in survivors))

    window = torch.hann_window(TURNS, device=device)
    spec = torch.fft.rfft((bpm - bpm.mean(0)) * window[:, None], n=8 * TURNS, dim=0).abs()
    tunes = spec[8:].argmax(0).add(8) / (8 * TURNS)
    print(f"fractional tunes  x {tunes[0].item():.4f}  y {tunes[1].item():.4f}")
    area = alive.view(N_AMP_X, N_AMP_Y, N_DELTA).double().mean((0, 1))
    print("aperture by momentum offset:", " ".join(f"{a:.3f}" for a in area.tolist()))


if __name__ == "__main__":
    main()
