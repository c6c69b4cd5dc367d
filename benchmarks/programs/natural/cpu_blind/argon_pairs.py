"""Steps liquid argon in a periodic box: Lennard-Jones forces over all pairs, then a leapfrog move."""

import torch

BOX, CUT, DT = 12.0, 3.0, 0.002


def step(pos, vel):
    def gap(c):
        d = c[:, None] - c[None, :]
        return d - BOX * torch.round(d / BOX)

    dx, dy, dz = gap(pos[0]), gap(pos[1]), gap(pos[2])
    r2 = dx * dx + dy * dy + dz * dz
    near = (r2 < CUT * CUT) & (r2 > 0)
    inv = torch.where(near, 1.0 / r2.clamp(min=0.6), 0.0)
    s6 = inv * inv * inv
    pull = 24 * inv * s6 * (2 * s6 - 1)
    force = torch.stack([(pull * dx).sum(1), (pull * dy).sum(1), (pull * dz).sum(1)])
    energy = 2 * (s6 * s6 - s6).sum()
    vel = vel + DT * force
    return torch.remainder(pos + DT * vel, BOX), vel, energy


torch.manual_seed(0)
grid = torch.stack(torch.meshgrid(*[torch.arange(10.0)] * 3, indexing="ij")).reshape(3, -1)
pos = grid * (BOX / 10) + 0.02 * torch.randn(3, 1000)
vel = 0.5 * torch.randn(3, 1000)

move = torch.compile(step)
with torch.no_grad():
    for _ in range(50):
        pos, vel, energy = move(pos, vel)
print("potential", energy.item(), "kinetic", 0.5 * vel.square().sum().item())
