"""As-rigid-as-possible posing of a ribbed cactus mesh.

The bottom ring is pinned, the top ring is a handle that bends and twists over the animation.  Every frame runs a few
local/global iterations (Sorkine & Alexa 2007), warm-started from the frame before, with cotangent weights and a
Cholesky factor computed once for the clip.
"""

import math

import torch


def cactus_mesh(n_around=36, n_along=56, ribs=9, height=4.0):
    u = torch.arange(n_around) / n_around * 2 * math.pi
    v = torch.linspace(0, 1, n_along)
    vv, uu = torch.meshgrid(v, u, indexing="ij")
    radius = 0.5 * (1 + 0.12 * torch.cos(ribs * uu)) * (0.75 + 0.5 * torch.sin(math.pi * vv))
    verts = torch.stack([radius * torch.cos(uu), radius * torch.sin(uu), height * vv], -1).reshape(-1, 3)
    faces = []
    for i in range(n_along - 1):
        for j in range(n_around):
            a = i * n_around + j
            b = i * n_around + (j + 1) % n_around
            c = a + n_around
            d = b + n_around
            faces.append((a, b, c))
            faces.append((b, d, c))
    return verts, torch.tensor(faces)


def cotangent_edges(verts, faces):
    """Directed edges (i, j) with symmetric cotangent weights."""
    n = len(verts)
    w = torch.zeros(n, n)
    for k in range(3):
        i, j, o = faces[:, k], faces[:, (k + 1) % 3], faces[:, (k + 2) % 3]
        a, b = verts[i] - verts[o], verts[j] - verts[o]
        cot = (a * b).sum(-1) / torch.linalg.cross(a, b).norm(dim=-1).clamp_min(1e-9)
        w.index_put_((i, j), 0.5 * cot, accumulate=True)
        w.index_put_((j, i), 0.5 * cot, accumulate=True)
    w = w.clamp_min(1e-4) * (w != 0)
    src, dst = w.nonzero(as_tuple=True)
    return src, dst, w[src, dst], w


class ArapSolver:
    def __init__(self, verts, faces, handle_ids):
        self.rest = verts
        self.src, self.dst, self.w, dense_w = cotangent_edges(verts, faces)
        self.rest_edges = verts[self.src] - verts[self.dst]
        self.handles = handle_ids
        free = torch.ones(len(verts), dtype=torch.bool)
        free[handle_ids] = False
        self.free = free.nonzero().squeeze(1)
        lap = torch.diag(dense_w.sum(1)) - dense_w
        self.lap_fh = lap[self.free][:, self.handles]
        self.chol = torch.linalg.cholesky(lap[self.free][:, self.free])

    def rotations(self, pos):
        e = pos[self.src] - pos[self.dst]
        outer = self.w[:, None, None] * self.rest_edges[:, :, None] * e[:, None, :]
        cov = torch.zeros(len(pos), 3, 3).index_add_(0, self.src, outer)
        u, _, vh = torch.linalg.svd(cov)
        v = vh.mT
        sign = torch.ones(len(pos), 3)
        sign[:, 2] = torch.sign(torch.linalg.det(v @ u.mT))
        return v @ (sign[:, :, None] * u.mT)

    def solve(self, rot, handle_pos):
        r = 0.5 * (rot[self.src] + rot[self.dst])
        b_edges = self.w[:, None] * (r @ self.rest_edges[:, :, None]).squeeze(-1)
        b = torch.zeros_like(self.rest).index_add_(0, self.src, b_edges)
        rhs = b[self.free] - self.lap_fh @ handle_pos
        out = torch.empty_like(self.rest)
        out[self.free] = torch.cholesky_solve(rhs, self.chol)
        out[self.handles] = handle_pos
        return out

    def energy(self, pos, rot):
        e = pos[self.src] - pos[self.dst]
        pred = (rot[self.src] @ self.rest_edges[:, :, None]).squeeze(-1)
        return (self.w * (e - pred).pow(2).sum(-1)).sum()

    def frame(self, pos, handle_pos, iterations=3):
        for _ in range(iterations):
            rot = self.rotations(pos)
            pos = self.solve(rot, handle_pos)
        return pos, self.energy(pos, rot)


def handle_pose(base, top, t):
    """Top ring twisted about z, tipped about y, and dragged sideways."""
    twist, tip = math.radians(120) * t, math.radians(70) * math.sin(math.pi * t)
    rz = torch.tensor(
        [[math.cos(twist), -math.sin(twist), 0], [math.sin(twist), math.cos(twist), 0], [0, 0, 1.0]]
    )
    ry = torch.tensor([[math.cos(tip), 0, math.sin(tip)], [0, 1.0, 0], [-math.sin(tip), 0, math.cos(tip)]])
    centre = top.mean(0)
    moved = (top - centre) @ (ry @ rz).T + centre + torch.tensor([1.2 * math.sin(math.pi * t), 0.0, -0.6 * t])
    return torch.cat([base, moved])


@torch.no_grad()
def main():
    n_around, n_along, n_frames = 36, 56, 100
    verts, faces = cactus_mesh(n_around, n_along)
    n = len(verts)
    base_ids = torch.arange(n_around)
    top_ids = torch.arange(n - n_around, n)
    solver = ArapSolver(verts, faces, torch.cat([base_ids, top_ids]))
    frame = torch.compile(solver.frame)

    pos = verts.clone()
    clip, energies = [], []
    for k in range(n_frames):
        handle = handle_pose(verts[base_ids], verts[top_ids], (k + 1) / n_frames)
        pos, e = frame(pos, handle)
        clip.append(pos)
        energies.append(e.item())
    clip = torch.stack(clip)

    speed = (clip[1:] - clip[:-1]).norm(dim=-1)
    tri = clip[-1][faces]
    area = torch.linalg.cross(tri[:, 1] - tri[:, 0], tri[:, 2] - tri[:, 0]).norm(dim=-1).sum() / 2
    tri0 = verts[faces]
    area0 = torch.linalg.cross(tri0[:, 1] - tri0[:, 0], tri0[:, 2] - tri0[:, 0]).norm(dim=-1).sum() / 2
    print(f"{n} vertices, {len(faces)} faces, {n_frames} frames")
    print(f"energy first {energies[0]:.4f}  max {max(energies):.4f}  last {energies[-1]:.4f}")
    print(f"largest vertex step {speed.max().item():.4f}, mean {speed.mean().item():.5f}")
    print(f"area ratio at the end {(area / area0).item():.4f}")


if __name__ == "__main__":
    main()
