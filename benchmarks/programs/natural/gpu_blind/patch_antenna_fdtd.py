"""3-D Yee FDTD of a probe-fed microstrip patch antenna; prints its resonances.

Graded lossy layers (electric and magnetic) close the box. SI units, uniform cubic cells.
"""

import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
NX, NY, NZ = (28, 28, 20) if SMOKE else (320, 320, 128)
STEPS = 3 if SMOKE else 2400
PML = 5 if SMOKE else 14
DX = 0.4e-3
C0, EPS0, MU0 = 299792458.0, 8.8541878128e-12, 4e-7 * math.pi
DT = 0.95 * DX / (C0 * math.sqrt(3.0))


def sponge(n):
    d = torch.zeros(n, dtype=torch.float64)
    ramp = ((torch.arange(PML, dtype=torch.float64) + 0.5) / PML).flip(0) ** 3
    d[:PML], d[-PML:] = ramp, ramp.flip(0)
    return d


class Antenna:
    def __init__(self):
        shape = (NX, NY, NZ)
        loss = sponge(NX)[:, None, None] + sponge(NY)[None, :, None] + sponge(NZ)[None, None, :]
        sig_max = 0.8 * 4 / (math.sqrt(MU0 / EPS0) * DX)
        eps = torch.full(shape, EPS0, dtype=torch.float64)
        zg = NZ // 3
        self.zg, self.zp = zg, zg + 4
        eps[:, :, zg : self.zp] = 2.2 * EPS0
        sig = sig_max * loss * eps / EPS0
        sig_m = sig_max * loss * MU0 / EPS0
        q = sig * DT / (2 * eps)
        ca, cb = (1 - q) / (1 + q), (DT / (eps * DX)) / (1 + q)
        qm = sig_m * DT / (2 * MU0)
        da, db = (1 - qm) / (1 + qm), (DT / (MU0 * DX)) / (1 + qm)
        # tangential fields vanish on the metal: ground plane and patch
        metal = torch.ones(shape, dtype=torch.float64)
        metal[:, :, zg] = 0
        px, py = int(NX * 0.3), int(NY * 0.25)
        metal[px : NX - px, py : NY - py, self.zp] = 0
        f32 = dict(dtype=torch.float32, device=DEV)
        self.ca, self.cb, self.da, self.db = (a.to(**f32) for a in (ca, cb, da, db))
        self.metal = metal.to(**f32)
        self.feed = (px + (NX - 2 * px) // 3, NY // 2)
        self.E = [torch.zeros(shape, **f32) for _ in range(3)]
        self.H = [torch.zeros(shape, **f32) for _ in range(3)]
        t = torch.arange(STEPS, dtype=torch.float64) * DT
        f0, tau = 8e9, 45e-12
        self.pulse = (
            torch.exp(-(((t - 4 * tau) / tau) ** 2)) * torch.sin(2 * math.pi * f0 * (t - 4 * tau))
        ).to(**f32)
        self.volts = torch.zeros(STEPS, **f32)

    def step(self, n):
        Ex, Ey, Ez = self.E
        Hx, Hy, Hz = self.H
        ca, cb, da, db = self.ca, self.cb, self.da, self.db
        # magnetic half step
        i = (slice(None), slice(0, -1), slice(0, -1))
        Hx[i] = da[i] * Hx[i] - db[i] * ((Ez[:, 1:, :-1] - Ez[i]) - (Ey[:, :-1, 1:] - Ey[i]))
        i = (slice(0, -1), slice(None), slice(0, -1))
        Hy[i] = da[i] * Hy[i] - db[i] * ((Ex[:-1, :, 1:] - Ex[i]) - (Ez[1:, :, :-1] - Ez[i]))
        i = (slice(0, -1), slice(0, -1), slice(None))
        Hz[i] = da[i] * Hz[i] - db[i] * ((Ey[1:, :-1, :] - Ey[i]) - (Ex[:-1, 1:, :] - Ex[i]))
        # electric half step
        i = (slice(None), slice(1, None), slice(1, None))
        Ex[i] = self.metal[i] * (
            ca[i] * Ex[i] + cb[i] * ((Hz[i] - Hz[:, :-1, 1:]) - (Hy[i] - Hy[:, 1:, :-1]))
        )
        i = (slice(1, None), slice(None), slice(1, None))
        Ey[i] = self.metal[i] * (
            ca[i] * Ey[i] + cb[i] * ((Hx[i] - Hx[1:, :, :-1]) - (Hz[i] - Hz[:-1, :, 1:]))
        )
        i = (slice(1, None), slice(1, None), slice(None))
        Ez[i] = ca[i] * Ez[i] + cb[i] * ((Hy[i] - Hy[:-1, 1:, :]) - (Hx[i] - Hx[1:, :-1, :]))
        # soft source on the feed pin, voltage between ground and patch
        fx, fy = self.feed
        Ez[fx, fy, self.zg : self.zp] += self.pulse[n]
        self.volts[n] = -DX * Ez[fx, fy, self.zg : self.zp].sum()


def resonances(v, src):
    n = 8 * len(v)
    V, S = torch.fft.rfft(v.double(), n), torch.fft.rfft(src.double(), n)
    f = torch.fft.rfftfreq(n, DT)
    band = (f > 2e9) & (f < 16e9)
    mag = (V.abs() / (S.abs() + 1e-3 * S.abs().max()))[band]
    fb = f[band]
    peak = (mag[1:-1] > mag[:-2]) & (mag[1:-1] > mag[2:])
    cand = torch.nonzero(peak).flatten() + 1
    best = cand[mag[cand].argsort(descending=True)[:4]]
    return [(fb[b].item() / 1e9, mag[b].item()) for b in sorted(best.tolist())]


def main():
    ant = Antenna()
    step = torch.compile(ant.step)
    cells = NX * NY * NZ
    print(f"{NX}x{NY}x{NZ} cells, dt {DT * 1e12:.3f} ps, {STEPS} steps")
    mark, last = time.perf_counter(), 0
    for n in range(STEPS):
        step(n)
        if (n + 1) % max(1, STEPS // 8) == 0:
            energy = 0.5 * EPS0 * sum(e.square().sum().item() for e in ant.E)
            now = time.perf_counter()
            print(
                f"step {n + 1:5d} |E| energy {energy:.3e}  {cells * (n + 1 - last) / (now - mark) / 1e6:9.1f} Mcell/s",
                flush=True,
            )
            mark, last = now, n + 1
    v = ant.volts.cpu()
    assert torch.isfinite(v).all()
    print("peak feed voltage", f"{v.abs().max().item():.3e}")
    for f, m in resonances(v, ant.pulse.cpu()):
        print(f"  resonance near {f:6.2f} GHz  (relative {m:.3e})")


if __name__ == "__main__":
    main()
