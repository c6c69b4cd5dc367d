"""Depth-averaged granular runout on a synthetic volcano flank (Voellmy friction).

First-order Lax-Friedrichs on a regular grid, adaptive CFL step. Good enough for
hazard screening; use the full solver for anything that gets published.
"""

import time

import torch

torch.set_num_threads(2)

G = 9.81
NX, NY = 700, 700
DX = 10.0


def make_terrain():
    torch.manual_seed(4)
    y, x = torch.meshgrid(torch.arange(NY) * DX, torch.arange(NX) * DX, indexing="ij")
    cx, cy = 0.5 * NX * DX, 0.5 * NY * DX
    r = ((x - cx) ** 2 + (y - cy) ** 2).sqrt()
    z = 1800.0 * torch.exp(-r / 1500.0)
    rough = torch.nn.functional.interpolate(
        torch.randn(1, 1, 40, 40), size=(NY, NX), mode="bicubic", align_corners=False
    )[0, 0]
    z = z + 25.0 * rough
    h = 40.0 * torch.exp(-((x - cx - 600) ** 2 + (y - cy) ** 2) / (2 * 250.0**2))
    h[h < 0.5] = 0.0
    return z, h


def ddx(f):
    return (torch.roll(f, -1, 1) - torch.roll(f, 1, 1)) / (2 * DX)


def ddy(f):
    return (torch.roll(f, -1, 0) - torch.roll(f, 1, 0)) / (2 * DX)


def neigh(f):
    return 0.25 * (torch.roll(f, 1, 0) + torch.roll(f, -1, 0) + torch.roll(f, 1, 1) + torch.roll(f, -1, 1))


class Runout:
    def __init__(self, z, h, mu=0.12, xi=600.0, cfl=0.35):
        self.z, self.h = z, h
        self.hu = torch.zeros_like(h)
        self.hv = torch.zeros_like(h)
        self.mu, self.xi, self.cfl = mu, xi, cfl
        self.hmax = h.clone()
        self.vmax = torch.zeros_like(h)
        self.t = 0.0
        self.zx, self.zy = ddx(z), ddy(z)

    @torch.compile
    def step(self):
        h, hu, hv = self.h, self.hu, self.hv
        wet = h > 0.01
        hs = h.clamp(min=0.01)
        u = torch.where(wet, hu / hs, 0.0)
        v = torch.where(wet, hv / hs, 0.0)
        speed = torch.sqrt(u * u + v * v)

        c = (speed + torch.sqrt(G * h)).max().item()
        dt = min(self.cfl * DX / max(c, 1e-3), 0.5)

        p = 0.5 * G * h * h
        h_new = neigh(h) * 0.2 + h * 0.8 - dt * (ddx(hu) + ddy(hv))
        hu_new = neigh(hu) * 0.2 + hu * 0.8 - dt * (ddx(hu * u + p) + ddy(hu * v) + G * h * self.zx)
        hv_new = neigh(hv) * 0.2 + hv * 0.8 - dt * (ddx(hv * u) + ddy(hv * v + p) + G * h * self.zy)

        # Voellmy: Coulomb + turbulent drag, applied implicitly
        drag = G * (self.mu * hs + speed * speed / self.xi) / (speed.clamp(min=0.1) * hs)
        damp = 1.0 / (1.0 + dt * drag)
        h_new = h_new.clamp(min=0.0)
        wet_new = h_new > 0.01
        self.hu = torch.where(wet_new, hu_new * damp, 0.0)
        self.hv = torch.where(wet_new, hv_new * damp, 0.0)
        self.h = h_new
        self.hmax = torch.maximum(self.hmax, h_new)
        self.vmax = torch.maximum(self.vmax, torch.where(wet, speed, 0.0))
        self.t += dt
        return dt


def main():
    z, h = make_terrain()
    sim = Runout(z, h)
    vol0 = float(h.sum()) * DX * DX
    print(f"release volume {vol0 / 1e6:.2f} Mm3")
    start = time.time()
    with torch.no_grad():
        for k in range(60):
            dt = sim.step()
            if k % 10 == 9:
                vol = float(sim.h.sum()) * DX * DX
                area = float((sim.h > 0.1).sum()) * DX * DX / 1e6
                print(
                    f"step {k + 1:3d} t={sim.t:6.2f}s dt={dt:.3f} vol={vol / vol0:.4f} "
                    f"area={area:.3f} km2 vmax={float(sim.vmax.max()):.1f} m/s "
                    f"[{time.time() - start:.1f}s]"
                )
    print(
        f"inundated area {float((sim.hmax > 0.1).sum()) * DX * DX / 1e6:.3f} km2, "
        f"max depth {float(sim.hmax.max()):.1f} m"
    )


if __name__ == "__main__":
    main()
