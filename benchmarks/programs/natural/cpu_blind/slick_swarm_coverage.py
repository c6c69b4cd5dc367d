"""Voronoi coverage control of skimmer boats on a drifting oil slick.

Several Monte Carlo worlds are run together.  Each boat owns the water nearest to it, steers (unicycle model) towards
the oil-weighted centroid of its cell, skims oil within reach, keeps off its neighbours, and goes back to the mother ship
when its tank is full.
"""

import math

import torch


class SlickWorlds:
    def __init__(self, worlds=6, boats=40, res=128, side=2000.0, dt=2.0, seed=3):
        g = torch.Generator().manual_seed(seed)
        self.W, self.N, self.res, self.side, self.dt = worlds, boats, res, side, dt
        self.cell = side / res
        axis = (torch.arange(res) + 0.5) * self.cell
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        self.grid = torch.stack([xx, yy], -1).reshape(-1, 2)
        self.base = torch.tensor([side / 2, 60.0])

        self.oil = torch.zeros(worlds, res * res)
        for _ in range(5):
            c = side * (0.25 + 0.5 * torch.rand(worlds, 1, 2, generator=g))
            s = side * (0.04 + 0.08 * torch.rand(worlds, 1, generator=g))
            self.oil += 0.8 * torch.exp(-((self.grid - c) ** 2).sum(-1) / (2 * s**2))
        self.pos = self.base + 300 * (torch.rand(worlds, boats, 2, generator=g) - torch.tensor([0.5, 0.1]))
        self.heading = 2 * math.pi * torch.rand(worlds, boats, generator=g)
        self.speed = torch.zeros(worlds, boats)
        self.tank = torch.zeros(worlds, boats)
        self.returning = torch.zeros(worlds, boats, dtype=torch.bool)
        self.recovered = torch.zeros(worlds)
        self.v_max, self.turn_max, self.capacity, self.reach = 8.0, 0.35, 60.0, 35.0
        self.t = torch.zeros(())

    def drift(self):
        """Advect with a tidal current and spread a little (upwind / explicit diffusion)."""
        cx = 0.6 * torch.cos(2 * math.pi * self.t / 1200)
        cy = 0.3 * torch.sin(2 * math.pi * self.t / 1200)
        q = self.oil.view(self.W, self.res, self.res)
        k = self.dt / self.cell
        gx = torch.where(cx > 0, q - torch.roll(q, 1, 2), torch.roll(q, -1, 2) - q)
        gy = torch.where(cy > 0, q - torch.roll(q, 1, 1), torch.roll(q, -1, 1) - q)
        lap = torch.roll(q, 1, 1) + torch.roll(q, -1, 1) + torch.roll(q, 1, 2) + torch.roll(q, -1, 2) - 4 * q
        self.oil = (q - k * (cx * gx + cy * gy) + 0.02 * lap).clamp_min(0).reshape(self.W, -1)

    def step(self):
        self.drift()
        d = torch.cdist(self.grid.expand(self.W, -1, -1), self.pos)  # W, cells, boats
        nearest, owner = d.min(dim=-1)

        # oil-weighted centroid of each boat's cell
        w = self.oil + 1e-4
        mass = torch.zeros(self.W, self.N).scatter_add_(1, owner, w)
        mx = torch.zeros(self.W, self.N).scatter_add_(1, owner, w * self.grid[:, 0])
        my = torch.zeros(self.W, self.N).scatter_add_(1, owner, w * self.grid[:, 1])
        centroid = torch.stack([mx, my], -1) / mass.clamp_min(1e-6).unsqueeze(-1)

        # skim
        working = ~self.returning
        active = working.gather(1, owner)
        take = torch.where((nearest < self.reach) & active, self.oil * 0.15, torch.zeros_like(self.oil))
        self.oil -= take
        self.tank = self.tank.scatter_add(1, owner, take)
        self.recovered += take.sum(1)

        # to base and back
        at_base = (self.pos - self.base).norm(dim=-1) < 80
        self.returning = (self.returning | (self.tank > self.capacity)) & ~at_base
        self.tank[at_base] = 0.0
        target = torch.where(self.returning[..., None], self.base, centroid)

        # keep-off force from other boats
        diff = self.pos[:, :, None] - self.pos[:, None, :]
        r2 = (diff**2).sum(-1) + 1e3 * torch.eye(self.N)
        push = (diff / r2[..., None] * torch.exp(-r2 / 60**2)[..., None]).sum(2) * 4000

        want = target - self.pos + push
        bearing = torch.atan2(want[..., 1], want[..., 0])
        err = torch.remainder(bearing - self.heading + math.pi, 2 * math.pi) - math.pi
        turn = (0.8 * err).clamp(-self.turn_max, self.turn_max)
        ref = (0.2 * want.norm(dim=-1)).clamp_max(self.v_max) * torch.cos(err).clamp_min(0.1)
        self.speed += self.dt * 0.4 * (ref - self.speed)
        self.heading = torch.remainder(self.heading + self.dt * turn, 2 * math.pi)
        self.pos[..., 0] += self.dt * self.speed * torch.cos(self.heading)
        self.pos[..., 1] += self.dt * self.speed * torch.sin(self.heading)
        self.pos.clamp_(0, self.side)
        self.t += self.dt
        return self.oil.sum(1)


@torch.no_grad()
def main():
    sim = SlickWorlds()
    start = sim.oil.sum(1)
    step = torch.compile(sim.step)
    trace = []
    for _ in range(360):
        trace.append(step())
    left = torch.stack(trace)
    half = (left < start / 2).float().argmax(0) * sim.dt
    print(f"{sim.W} worlds, {sim.N} boats, simulated {sim.t.item():.0f} s")
    print("oil left (share): ", [round(v, 3) for v in (left[-1] / start).tolist()])
    print("recovered (share):", [round(v, 3) for v in (sim.recovered / start).tolist()])
    print("half-time [s]:    ", half.tolist())
    print(f"boats returning at the end: {int(sim.returning.sum())}")


if __name__ == "__main__":
    main()
