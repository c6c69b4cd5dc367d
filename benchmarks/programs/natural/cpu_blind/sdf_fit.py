"""Fit a small CSG scene (blended ellipsoids and rounded boxes) to depth/normal images.

The scene is a smooth union of analytic primitives.  Rays are sphere traced without
gradients; the hit point is then re-attached to the parameters with one Newton step,
which gives the exact first-order derivative of the depth.
"""

import math
import time

import torch

torch.manual_seed(11)

RES = 128
N_ELL, N_BOX = 4, 3
N_STEPS = 28
FAR = 6.0
BLEND = 0.08
EPS = 2e-3
STENCIL = EPS * torch.cat(
    [torch.zeros(1, 3), torch.eye(3).repeat_interleave(2, 0) * torch.tensor([1.0, -1.0]).repeat(3)[:, None]]
)


def random_scene(gen):
    n = N_ELL + N_BOX
    centre = (torch.rand(n, 3, generator=gen) - 0.5) * 1.6
    size = 0.18 + 0.22 * torch.rand(n, 3, generator=gen)
    yaw = (torch.rand(n, generator=gen) - 0.5) * math.pi
    return {"centre": centre, "size": size, "yaw": yaw}


def smooth_min(a, b, k=BLEND):
    h = (k - (a - b).abs()).clamp_min(0.0) / k
    return torch.minimum(a, b) - h * h * k * 0.25


def length(x, y, z):
    return torch.sqrt(x * x + y * y + z * z + 1e-12)


def scene_sdf(x, y, z, centre, size, yaw):
    """Signed distance (a lower bound of it) of the union at coordinates x, y, z."""
    d = None
    for i in range(N_ELL + N_BOX):
        px, py, pz = x - centre[i, 0], y - centre[i, 1], z - centre[i, 2]
        c, s = torch.cos(yaw[i]), torch.sin(yaw[i])
        qx, qz = c * px + s * pz, c * pz - s * px
        sx, sy, sz = size[i, 0], size[i, 1], size[i, 2]
        if i < N_ELL:
            k0 = length(qx / sx, py / sy, qz / sz)
            k1 = length(qx / sx**2, py / sy**2, qz / sz**2)
            di = k0 * (k0 - 1.0) / k1
        else:
            r = 0.05
            ax, ay, az = qx.abs() - sx + r, py.abs() - sy + r, qz.abs() - sz + r
            outside = length(ax.clamp_min(0), ay.clamp_min(0), az.clamp_min(0))
            inside = torch.maximum(ax, torch.maximum(ay, az)).clamp_max(0)
            di = outside + inside - r
        d = di if d is None else smooth_min(d, di)
    return d


@torch.compile(fullgraph=True)
def march(t, ox, oy, oz, dx, dy, dz, centre, size, yaw):
    d = scene_sdf(ox + t * dx, oy + t * dy, oz + t * dz, centre, size, yaw)
    return (t + 0.9 * d).clamp_max(FAR)


@torch.compile(fullgraph=True)
def attach(t, ox, oy, oz, dx, dy, dz, stencil, centre, size, yaw):
    """Differentiable depth, normals from central differences, and the residual distance."""
    x = ox + t * dx + stencil[:, 0:1]  # (7, rays): the point and +-e on each axis
    y = oy + t * dy + stencil[:, 1:2]
    z = oz + t * dz + stencil[:, 2:3]
    d, xp, xm, yp, ym, zp, zm = scene_sdf(x, y, z, centre, size, yaw).unbind(0)
    nx, ny, nz = xp - xm, yp - ym, zp - zm
    inv = 1.0 / length(nx, ny, nz)
    nx, ny, nz = nx * inv, ny * inv, nz * inv
    slope = (nx * dx + ny * dy + nz * dz).detach().clamp_max(-0.1)
    depth = t - d / slope
    return depth, nx, ny, nz, d


def camera_rays(angle):
    v = torch.linspace(-0.5, 0.5, RES)
    py, px = torch.meshgrid(-v, v, indexing="ij")
    c, s = math.cos(angle), math.sin(angle)
    dirs = torch.stack([px, py, torch.full_like(px, 1.1)], -1).reshape(-1, 3)
    dirs = dirs / dirs.norm(dim=-1, keepdim=True)
    dx, dz = c * dirs[:, 0] + s * dirs[:, 2], c * dirs[:, 2] - s * dirs[:, 0]
    origin = (-2.8 * s, 0.0, -2.8 * c)
    o = [torch.full_like(dx, value) for value in origin]
    return (*o, dx.contiguous(), dirs[:, 1].contiguous(), dz.contiguous())


def render(rays, scene):
    params = (scene["centre"], scene["size"], scene["yaw"])
    with torch.no_grad():
        t = torch.full_like(rays[0], 0.8)
        for _ in range(N_STEPS):
            t = march(t, *rays, *params)
    return attach(t, *rays, STENCIL, *params)


def main():
    gen = torch.Generator().manual_seed(3)
    truth = random_scene(gen)
    views = [camera_rays(2 * math.pi * k / 6) for k in range(6)]
    with torch.no_grad():
        targets = [[f.clone() for f in render(v, truth)] for v in views]

    guess = {k: (p + 0.06 * torch.randn(p.shape, generator=gen)) for k, p in truth.items()}
    guess["size"] = guess["size"].clamp_min(0.1)
    for p in guess.values():
        p.requires_grad_(True)
    opt = torch.optim.Adam(guess.values(), lr=6e-3)

    t_start = time.perf_counter()
    for it in range(60):
        k = it % len(views)
        depth, nx, ny, nz, d = render(views[k], guess)
        gt_depth, gx, gy, gz, gd = targets[k]
        both = (d.detach().abs() < 0.02) & (gd.abs() < 0.02)
        either = (d.detach().abs() < 0.02) ^ (gd.abs() < 0.02)
        w = both.float()
        loss_depth = (w * (depth - gt_depth).clamp(-0.3, 0.3) ** 2).sum() / w.sum()
        loss_normal = (w * (1 - nx * gx - ny * gy - nz * gz)).sum() / w.sum()
        loss = loss_depth + 0.02 * loss_normal
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 0 or it == 59:
            err = (guess["centre"] - truth["centre"]).norm(dim=1).mean().item()
            print(
                f"iter {it:3d}  depth {loss_depth.item():.2e}  normal {loss_normal.item():.4f}"
                f"  silhouette err {either.float().mean().item():.4f}  centre err {err:.4f}"
            )
    print(f"done in {time.perf_counter() - t_start:.1f} s")


if __name__ == "__main__":
    main()
