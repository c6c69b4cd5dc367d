"""Discrete element simulation of tablets tumbling in a rotating coating drum."""

import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
COUNT = 600 if SMOKE else 120_000
STEPS = 12 if SMOKE else 900
RADIUS = 0.004
PER_CELL = 4
DT = 4e-5
STIFFNESS, DAMPING, FRICTION = 4.0e3, 1.2, 0.35
MASS = 3.2e-4
GRAVITY = 9.81
SPIN = 2 * math.pi * 12 / 60
CELL = 2.0 * RADIUS


def drum_size(count):
    volume = count * (2 * RADIUS) ** 3 / 0.25
    drum_radius = (volume / (2 * math.pi)) ** (1 / 3)
    return drum_radius, 2 * drum_radius


DRUM_RADIUS, DRUM_LENGTH = drum_size(COUNT)
GRID = (
    math.ceil(DRUM_LENGTH / CELL) + 2,
    math.ceil(2 * DRUM_RADIUS / CELL) + 2,
    math.ceil(2 * DRUM_RADIUS / CELL) + 2,
)
CELLS = GRID[0] * GRID[1] * GRID[2]


def cell_coordinates(pos):
    origin = torch.tensor([0.0, -DRUM_RADIUS, -DRUM_RADIUS], device=pos.device)
    top = torch.tensor(GRID, device=pos.device) - 2
    coords = ((pos - origin) / CELL).floor().long() + 1
    return torch.minimum(coords.clamp(min=1), top)


def flat_cell(coords):
    return (coords[..., 0] * GRID[1] + coords[..., 1]) * GRID[2] + coords[..., 2]


def contact_law(overlap, normal, rel_vel):
    touching = overlap > 0
    speed_n = (rel_vel * normal).sum(-1, keepdim=True)
    tangential = rel_vel - speed_n * normal
    push = torch.where(touching[..., None], STIFFNESS * overlap[..., None] - DAMPING * speed_n, 0.0).clamp(
        min=0
    )
    slip = tangential.norm(dim=-1, keepdim=True)
    drag = torch.minimum(FRICTION * push, DAMPING * slip)
    return push * normal - drag * tangential / (slip + 1e-9)


def pair_forces(pos, vel, offsets):
    n = pos.shape[0]
    coords = cell_coordinates(pos)
    cell = flat_cell(coords)
    sorted_cell, order = torch.sort(cell)
    starts = torch.searchsorted(sorted_cell, torch.arange(CELLS + 1, device=pos.device))

    neighbour_cell = flat_cell(coords[:, None, :] + offsets[None])
    first, last = starts[neighbour_cell], starts[neighbour_cell + 1]
    slot = first[..., None] + torch.arange(PER_CELL, device=pos.device)
    valid = (slot < last[..., None]).reshape(n, -1)
    other = order[slot.clamp(max=n - 1)].reshape(n, -1)
    valid = valid & (other != torch.arange(n, device=pos.device)[:, None])

    delta = pos[:, None] - pos[other]
    dist = delta.pow(2).sum(-1).clamp(min=1e-12).sqrt()
    overlap = torch.where(valid, 2 * RADIUS - dist, -1.0)
    force = contact_law(overlap, delta / dist[..., None], vel[:, None] - vel[other])
    contacts = (overlap > 0).sum(-1)
    return force.sum(1), contacts


def wall_forces(pos, vel):
    y, z = pos[:, 1], pos[:, 2]
    radial = torch.sqrt(y * y + z * z).clamp(min=1e-9)
    zero = torch.zeros_like(y)
    normal = torch.stack([zero, -y / radial, -z / radial], -1)
    wall_vel = torch.stack([zero, -SPIN * z, SPIN * y], -1)
    force = contact_law(radial + RADIUS - DRUM_RADIUS, normal, vel - wall_vel)
    for sign, gap in ((1.0, pos[:, 0]), (-1.0, DRUM_LENGTH - pos[:, 0])):
        normal = torch.stack([zero + sign, zero, zero], -1)
        force = force + contact_law(RADIUS - gap, normal, vel)
    return force


@torch.compile
def advance(pos, vel, offsets):
    force, contacts = pair_forces(pos, vel, offsets)
    force = force + wall_forces(pos, vel)
    acc = force / MASS
    acc[:, 2] -= GRAVITY
    vel = vel + DT * acc
    pos = pos + DT * vel
    return pos, vel, contacts


def fill_drum(count):
    spacing = 2.05 * RADIUS
    per_axis = int(2 * DRUM_RADIUS / spacing)
    axis = torch.arange(per_axis) * spacing + RADIUS * 1.05
    x, y, z = torch.meshgrid(axis, axis - DRUM_RADIUS, axis - DRUM_RADIUS, indexing="ij")
    points = torch.stack([x, y, z], -1).reshape(-1, 3)
    inside = points[:, 1:].norm(dim=-1) < DRUM_RADIUS - 1.1 * RADIUS
    points = points[inside]
    points = points[points[:, 2].argsort()][:count]
    return points + 0.02 * RADIUS * torch.randn_like(points)


def main():
    torch.manual_seed(3)
    pos = fill_drum(COUNT).to(DEVICE)
    vel = 0.01 * torch.randn_like(pos)
    steps = torch.arange(-1, 2, device=DEVICE)
    offsets = torch.cartesian_prod(steps, steps, steps)
    start = time.time()
    for step in range(STEPS):
        pos, vel, contacts = advance(pos, vel, offsets)
        if (step + 1) % (STEPS // 4) == 0:
            energy = 0.5 * MASS * vel.pow(2).sum().item()
            print(
                f"t {DT * (step + 1) * 1e3:.2f} ms  contacts {contacts.float().mean().item():.2f}  "
                f"kinetic {energy:.4f} J"
            )
    print(f"{len(pos)} tablets, {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
