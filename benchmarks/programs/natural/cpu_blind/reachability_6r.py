"""Reachability and dexterity map of a six-axis arm by sampling of the joint space.

For every voxel of the workspace: how many sampled configurations reach it and the best manipulability seen there.
Used to choose where a work table is bolted down.
"""

import math

import torch

torch.manual_seed(6)

# Denavit-Hartenberg (a, alpha, d, offset), in metres, of an arm of the 10 kg class
DH = torch.tensor(
    [
        [0.000, math.pi / 2, 0.345, 0.0],
        [0.560, 0.0, 0.000, math.pi / 2],
        [0.035, math.pi / 2, 0.000, 0.0],
        [0.000, -math.pi / 2, 0.515, 0.0],
        [0.000, math.pi / 2, 0.000, 0.0],
        [0.000, 0.0, 0.180, 0.0],
    ]
)
LOWER = torch.tensor([-170.0, -100.0, -70.0, -190.0, -125.0, -360.0]) * math.pi / 180
UPPER = torch.tensor([170.0, 135.0, 155.0, 190.0, 125.0, 360.0]) * math.pi / 180

BATCH, BATCHES = 8_192, 90
VOXEL, EXTENT = 0.05, 1.4
CELLS = int(2 * EXTENT / VOXEL)


def dh_matrix(theta, a, alpha, d):
    ct, st = torch.cos(theta), torch.sin(theta)
    ca, sa = torch.cos(alpha), torch.sin(alpha)
    zero, one = torch.zeros_like(ct), torch.ones_like(ct)
    return torch.stack(
        [
            torch.stack([ct, -st * ca, st * sa, a * ct], dim=-1),
            torch.stack([st, ct * ca, -ct * sa, a * st], dim=-1),
            torch.stack([zero, sa * one, ca * one, d * one], dim=-1),
            torch.stack([zero, zero, zero, one], dim=-1),
        ],
        dim=-2,
    )


def forward_kinematics(q):
    """Frames of all links: a list of (batch, 4, 4), the base first."""
    frame = torch.eye(4).expand(q.shape[0], 4, 4)
    frames = [frame]
    for i in range(6):
        a, alpha, d, offset = DH[i]
        frame = frame @ dh_matrix(q[:, i] + offset, a, alpha, d)
        frames.append(frame)
    return frames


def geometric_jacobian(frames):
    tip = frames[-1][:, :3, 3]
    columns = []
    for f in frames[:-1]:
        axis, origin = f[:, :3, 2], f[:, :3, 3]
        columns.append(torch.cat([torch.linalg.cross(axis, tip - origin), axis], dim=-1))
    return torch.stack(columns, dim=-1)


def collides(frames):
    """Rough test: wrist or flange under the floor, or inside the base's column."""
    points = torch.stack([f[:, :3, 3] for f in frames[3:]], dim=1)
    under = (points[..., 2] < 0.05).any(1)
    radius = points[..., :2].norm(dim=-1)
    in_column = ((radius < 0.18) & (points[..., 2] < 0.6)).any(1)
    return under | in_column


@torch.compile
def evaluate_samples(u):
    q = LOWER + u * (UPPER - LOWER)
    frames = forward_kinematics(q)
    jac = geometric_jacobian(frames)
    manipulability = torch.linalg.det(jac @ jac.transpose(1, 2)).clamp(min=0).sqrt()
    # Nearness of a joint's end stop takes dexterity away
    range_ = (UPPER - LOWER) ** 2
    penal = range_ * (2 * q - UPPER - LOWER).abs() / (4 * (UPPER - q) ** 2 * (q - LOWER) ** 2 + 1e-6)
    weight = 1 - torch.exp(-4.0 / (1 + penal).prod(-1).clamp(max=1e6))
    score = manipulability * weight
    tip = frames[-1][:, :3, 3]
    cell = ((tip + EXTENT) / VOXEL).long().clamp(0, CELLS - 1)
    flat = (cell[:, 0] * CELLS + cell[:, 1]) * CELLS + cell[:, 2]
    return flat, score, manipulability, ~collides(frames)


def main():
    count = torch.zeros(CELLS**3)
    best = torch.zeros(CELLS**3)
    sobol = torch.quasirandom.SobolEngine(6, scramble=True, seed=9)
    free_total, manip_total = 0, 0.0
    with torch.no_grad():
        for _ in range(BATCHES):
            u = sobol.draw(BATCH).clamp(1e-4, 1 - 1e-4)
            flat, score, manip, free = evaluate_samples(u)
            flat, score = flat[free], score[free]
            count.index_add_(0, flat, torch.ones_like(score))
            best.scatter_reduce_(0, flat, score, reduce="amax")
            free_total += free.sum().item()
            manip_total += manip.mean().item()
    reached = count > 0
    print(f"{BATCH * BATCHES} configurations, {100 * free_total / (BATCH * BATCHES):.1f} % free of collision")
    print(
        f"reached volume {reached.sum().item() * VOXEL**3:.3f} m3, mean manipulability {manip_total / BATCHES:.5f}"
    )
    heights = best.reshape(CELLS, CELLS, CELLS).clamp(max=1).sum((0, 1))
    z = heights.argmax().item() * VOXEL - EXTENT
    print(f"best height of a table: {z:.2f} m (dexterity {heights.max():.3f})")


if __name__ == "__main__":
    main()
