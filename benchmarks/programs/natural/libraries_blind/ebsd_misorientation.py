"""Kernel average misorientation maps from EBSD scans (cubic metals).

For each scan point the disorientation to its right and lower neighbours is
taken under the 24 cubic symmetry operations, averaged, and thresholded into
grain boundaries.
"""

import math
import time

import roma
import torch

torch.manual_seed(9)

ROWS, COLS = 160, 200
N_SCANS = 30
GRAINS = 40


def cubic_symmetry():
    """The 24 proper rotations of the cube as unit quaternions (XYZW)."""
    s = math.sqrt(0.5)
    quats = [(0, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0)]
    for axis in range(3):
        for sign in (1, -1):
            q = [0.0, 0.0, 0.0, s]
            q[axis] = sign * s
            quats.append(tuple(q))
    for sx in (1, -1):
        for sy in (1, -1):
            for sz in (1, -1):
                quats.append((0.5 * sx, 0.5 * sy, 0.5 * sz, 0.5))
    for a in range(3):
        for b in range(a + 1, 3):
            for sign in (1, -1):
                q = [0.0, 0.0, 0.0, 0.0]
                q[a], q[b] = s, sign * s
                quats.append(tuple(q))
    return torch.tensor(quats, dtype=torch.float32)


SYMMETRY = cubic_symmetry()


def make_scan(generator):
    """Voronoi grains, each with its own orientation and half a degree of scatter."""
    seeds = torch.rand(GRAINS, 2, generator=generator) * torch.tensor([ROWS, COLS])
    yy, xx = torch.meshgrid(torch.arange(ROWS), torch.arange(COLS), indexing="ij")
    grid = torch.stack([yy, xx], -1).float().view(-1, 2)
    grain = torch.cdist(grid, seeds).argmin(1)
    base = roma.random_unitquat((GRAINS,), generator=generator)
    scatter = math.radians(0.5) * torch.randn(ROWS * COLS, 3, generator=generator)
    q = roma.quat_product(base[grain], roma.rotvec_to_unitquat(scatter))
    return roma.quat_normalize(q).view(ROWS, COLS, 4)


def disorientation(q1, q2):
    rel = roma.quat_product(roma.quat_conjugation(q1), q2)
    variants = roma.quat_product(SYMMETRY, rel[..., None, :])
    cos_half = variants[..., 3].abs().amax(-1).clamp(max=1.0)
    return torch.rad2deg(2 * torch.acos(cos_half))


@torch.compile
def kam_map(q, threshold=5.0):
    right = disorientation(q[:, :-1], q[:, 1:])
    down = disorientation(q[:-1], q[1:])
    total = torch.zeros(q.shape[:2])
    count = torch.zeros(q.shape[:2])
    keep = (right < threshold).float()
    total[:, :-1] += right * keep
    count[:, :-1] += keep
    keep = (down < threshold).float()
    total[:-1] += down * keep
    count[:-1] += keep
    boundary = (right >= threshold).float().mean() + (down >= threshold).float().mean()
    return total / count.clamp(min=1), boundary / 2


def main():
    gen = torch.Generator().manual_seed(13)
    scans = [make_scan(gen) for _ in range(4)]

    times, fractions = [], []
    mean_kam = 0.0
    for i in range(N_SCANS):
        q = scans[i % len(scans)]
        t0 = time.perf_counter()
        kam, boundary = kam_map(q)
        mean_kam += kam.mean().item() / N_SCANS
        times.append(time.perf_counter() - t0)
        fractions.append(boundary.item())

    steady = sorted(times[2:])
    print(f"{N_SCANS} scans of {ROWS}x{COLS} points")
    print(f"mean KAM {mean_kam:.3f} deg, boundary fraction {sum(fractions) / len(fractions):.4f}")
    print(f"median scan {1e3 * steady[len(steady) // 2]:.1f} ms")


if __name__ == "__main__":
    main()
