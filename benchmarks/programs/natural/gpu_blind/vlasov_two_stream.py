"""1D1V Vlasov-Poisson solver: two-stream instability of a collisionless plasma.

Semi-Lagrangian scheme with Strang splitting.  Each advection is a constant shift along one
axis, done with cubic (4 point) Lagrange interpolation at the feet of the characteristics.
We run a short scan over the drift velocity of the beams and fit the growth rate of the field.
"""

import math
import time

import torch

torch.manual_seed(0)
device = "cuda"
dtype = torch.float64

NX, NV = 4096, 4096
VMAX = 8.0
STEPS = 160
DT = 0.08


def lagrange4(a):
    """Weights of the points at -1, 0, 1, 2 for a fractional position a in [0, 1)."""
    wm = -a * (a - 1.0) * (a - 2.0) / 6.0
    w0 = (a + 1.0) * (a - 1.0) * (a - 2.0) / 2.0
    w1 = -(a + 1.0) * a * (a - 2.0) / 2.0
    w2 = (a + 1.0) * a * (a - 1.0) / 6.0
    return wm, w0, w1, w2


class VlasovPoisson:
    def __init__(self, k0):
        self.length = 2 * math.pi / k0
        self.dx = self.length / NX
        self.dv = 2 * VMAX / NV
        self.x = torch.arange(NX, device=device, dtype=dtype) * self.dx
        self.v = -VMAX + (torch.arange(NV, device=device, dtype=dtype) + 0.5) * self.dv
        self.ix = torch.arange(NX, device=device)
        self.iv = torch.arange(NV, device=device)
        k = 2 * math.pi * torch.fft.rfftfreq(NX, d=self.dx, device=device, dtype=dtype)
        inv = torch.zeros(NX // 2 + 1, device=device, dtype=torch.complex128)
        inv[1:] = 1.0 / (1j * k[1:])
        self.inv_ik = inv
        self.step = torch.compile(self._step)

    def field(self, f):
        rho = 1.0 - f.sum(dim=1) * self.dv
        rho = rho - rho.mean()
        return torch.fft.irfft(torch.fft.rfft(rho) * self.inv_ik, n=NX)

    def advect_x(self, f, dt):
        shift = -self.v * dt / self.dx
        base = torch.floor(shift)
        wm, w0, w1, w2 = lagrange4(shift - base)
        i = self.ix[:, None] + base.long()[None, :]
        out = wm * f.gather(0, (i - 1) % NX)
        out = out + w0 * f.gather(0, i % NX)
        out = out + w1 * f.gather(0, (i + 1) % NX)
        out = out + w2 * f.gather(0, (i + 2) % NX)
        return out

    def advect_v(self, f, e, dt):
        shift = e * dt / self.dv  # electrons: dv/dt = -E
        base = torch.floor(shift)
        wm, w0, w1, w2 = (w[:, None] for w in lagrange4(shift - base))
        j = self.iv[None, :] + base.long()[:, None]

        def take(index):
            inside = (index >= 0) & (index < NV)
            value = f.gather(1, index.clamp(0, NV - 1))
            return torch.where(inside, value, torch.zeros_like(value))

        return wm * take(j - 1) + w0 * take(j) + w1 * take(j + 1) + w2 * take(j + 2)

    def _step(self, f):
        f = self.advect_x(f, 0.5 * DT)
        e = self.field(f)
        f = self.advect_v(f, e, DT)
        f = self.advect_x(f, 0.5 * DT)
        energy = 0.5 * (e * e).sum() * self.dx
        return f, energy

    def initial(self, v0, vth=0.5, eps=1e-3, k0=0.5):
        beams = torch.exp(-0.5 * ((self.v - v0) / vth) ** 2)
        beams = beams + torch.exp(-0.5 * ((self.v + v0) / vth) ** 2)
        beams = beams / (beams.sum() * self.dv)
        return (1 + eps * torch.cos(k0 * self.x))[:, None] * beams[None, :]


def growth_rate(history):
    """Slope of 0.5 log(E) over the middle of the run."""
    h = history.log() * 0.5
    lo, hi = len(h) // 3, 2 * len(h) // 3
    t = torch.arange(lo, hi, dtype=h.dtype) * DT
    y = h[lo:hi]
    tc = t - t.mean()
    return float((tc * (y - y.mean())).sum() / (tc * tc).sum())


def main():
    solver = VlasovPoisson(k0=0.5)
    for v0 in (1.6, 2.2, 2.8):
        f = solver.initial(v0)
        mass0 = f.sum().item()
        history = []
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            f, energy = solver.step(f)
            history.append(energy)
        torch.cuda.synchronize()
        spent = time.perf_counter() - start
        history = torch.stack(history).cpu()
        mass = f.sum().item()
        print(
            f"v0={v0:.1f}  growth={growth_rate(history):+.4f}  field energy {history[0]:.3e} -> "
            f"{history[-1]:.3e}  mass drift {mass / mass0 - 1:+.2e}  min f {f.min().item():+.2e}  {spent:.2f} s"
        )


if __name__ == "__main__":
    main()
