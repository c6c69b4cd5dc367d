"""Local planner: cost-to-go over an occupancy grid by value iteration, replanned as
the laser scan updates the map. The field is followed greedily by the controller."""

import math
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(2)

H, W = 160, 160
LETHAL = 1e4
TOL = 1e-2
MAX_SWEEPS = 60

OFFSETS = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]


def make_world(gen):
    occ = torch.zeros(H, W)
    for _ in range(22):
        r = int(torch.randint(5, H - 20, (1,), generator=gen))
        c = int(torch.randint(5, W - 20, (1,), generator=gen))
        h = int(torch.randint(3, 14, (1,), generator=gen))
        w = int(torch.randint(3, 14, (1,), generator=gen))
        occ[r : r + h, c : c + w] = 1.0
    return occ


def inflate(occ, radius=4):
    """Soft cost around obstacles, decaying with the distance in cells."""
    layers = occ
    cost = occ * LETHAL
    for k in range(1, radius + 1):
        layers = F.max_pool2d(layers[None, None], 3, stride=1, padding=1)[0, 0]
        cost = torch.maximum(cost, layers * 20.0 * math.exp(-0.6 * k))
    return 1.0 + cost


def sweep(value, cost):
    padded = F.pad(value[None, None], (1, 1, 1, 1), value=LETHAL)[0, 0]
    best = value
    for dr, dc in OFFSETS:
        nb = padded[1 + dr : 1 + dr + H, 1 + dc : 1 + dc + W]
        length = math.sqrt(dr * dr + dc * dc)
        best = torch.minimum(best, nb + length * cost)
    return best


@torch.compile
def plan(value, occ, goal_mask):
    cost = inflate(occ)
    value = torch.where(goal_mask, torch.zeros_like(value), value)
    n = 0
    while n < MAX_SWEEPS:
        new = sweep(value, cost)
        change = (new - value).abs().max().item()
        value = new
        n += 1
        if change < TOL:
            break
    return value, n


def descend(value, start, steps=60):
    r, c = start
    for _ in range(steps):
        patch = value[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2]
        k = int(patch.argmin())
        r = max(r - 1, 0) + k // patch.shape[1]
        c = max(c - 1, 0) + k % patch.shape[1]
    return r, c


def main():
    gen = torch.Generator().manual_seed(9)
    occ = make_world(gen)
    goal = torch.zeros(H, W, dtype=torch.bool)
    goal[H // 2, W // 2] = True
    far = torch.full((H, W), LETHAL)

    for _ in range(2):
        plan(far, occ, goal)

    sweeps = 0
    t0 = time.perf_counter()
    n_frames = 40
    for _ in range(n_frames):
        noise = (torch.rand(H, W, generator=gen) > 0.9995).float()
        seen = torch.maximum(occ, noise)
        value, n = plan(far, seen, goal)
        sweeps += n
    dt = time.perf_counter() - t0

    print(
        "cost-to-go at corner region:",
        round(value[60, 60].item(), 2),
        "end of path:",
        descend(value, (60, 60)),
    )
    print(f"{n_frames} plans, {sweeps / n_frames:.1f} sweeps each, {1e3 * dt / n_frames:.2f} ms per plan")


if __name__ == "__main__":
    main()
