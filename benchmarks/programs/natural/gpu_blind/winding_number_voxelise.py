"""Inside/outside voxelisation of a triangle soup with generalised winding numbers.

The solid angle of every triangle is summed at every voxel centre (van Oosterom and Strackee), which
also works for meshes with holes.  Brute force: voxels in chunks against all the triangles.
"""

import math

import torch

torch.manual_seed(1)
device = "cuda"

RES = 160
NU, NVV = 256, 24  # facets of the tube along and around the curve
CHUNK = 16384


def trefoil_tube(nu, nv, radius=0.42):
    """Triangles of a tube that follows a trefoil knot."""
    t = torch.arange(nu, dtype=torch.float64) * (2 * math.pi / nu)

    def curve(s):
        return torch.stack(
            [torch.sin(s) + 2 * torch.sin(2 * s), torch.cos(s) - 2 * torch.cos(2 * s), -torch.sin(3 * s)],
            dim=-1,
        )

    h = 1e-4
    centre = curve(t)
    tangent = torch.nn.functional.normalize(curve(t + h) - curve(t - h), dim=-1)
    up = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64).expand_as(tangent)
    side = torch.nn.functional.normalize(torch.linalg.cross(tangent, up), dim=-1)
    normal = torch.linalg.cross(side, tangent)
    phi = torch.arange(nv, dtype=torch.float64) * (2 * math.pi / nv)
    ring = side[:, None, :] * phi.cos()[None, :, None] + normal[:, None, :] * phi.sin()[None, :, None]
    verts = (centre[:, None, :] + radius * ring).reshape(-1, 3)

    i = torch.arange(nu)[:, None].expand(nu, nv)
    j = torch.arange(nv)[None, :].expand(nu, nv)
    a = (i * nv + j).reshape(-1)
    b = (((i + 1) % nu) * nv + j).reshape(-1)
    c = (((i + 1) % nu) * nv + (j + 1) % nv).reshape(-1)
    d = (i * nv + (j + 1) % nv).reshape(-1)
    faces = torch.cat([torch.stack([a, b, c], -1), torch.stack([a, c, d], -1)])
    return verts, faces


def voxel_centres(lo, hi, res):
    axes = [torch.linspace(float(l), float(h), res, device=device) for l, h in zip(lo, hi)]
    grid = torch.meshgrid(*axes, indexing="ij")
    return torch.stack(grid, dim=-1).reshape(-1, 3)


@torch.compile
def winding_number(points, triangles):
    """points (P, 3), triangles (T, 3, 3) -> winding number at each point (P,)."""
    a = triangles[None, :, 0] - points[:, None]
    b = triangles[None, :, 1] - points[:, None]
    c = triangles[None, :, 2] - points[:, None]
    la = a.norm(dim=-1)
    lb = b.norm(dim=-1)
    lc = c.norm(dim=-1)
    numerator = (a * torch.linalg.cross(b, c, dim=-1)).sum(-1)
    denominator = la * lb * lc + (a * b).sum(-1) * lc + (b * c).sum(-1) * la + (c * a).sum(-1) * lb
    omega = 2.0 * torch.atan2(numerator, denominator)
    return omega.sum(dim=1) / (4.0 * math.pi)


def mesh_volume(triangles):
    a, b, c = triangles.double().unbind(1)
    return ((a * torch.linalg.cross(b, c, dim=-1)).sum(-1) / 6.0).sum().item()


def main():
    verts, faces = trefoil_tube(NU, NVV)
    triangles = verts[faces].float().to(device)
    # a scanned mesh has holes: drop some faces
    kept = torch.rand(len(triangles)) > 0.01
    damaged = triangles[kept.to(device)].contiguous()
    print(f"{len(triangles)} triangles, {len(damaged)} after the damage, volume {mesh_volume(triangles):.4f}")

    lo = verts.min(0).values - 0.1
    hi = verts.max(0).values + 0.1
    points = voxel_centres(lo, hi, RES)
    cell = torch.prod((hi - lo) / (RES - 1)).item()

    winding = torch.empty(len(points), device=device)
    for start in range(0, len(points) - len(points) % CHUNK, CHUNK):
        winding[start : start + CHUNK] = winding_number(points[start : start + CHUNK], damaged)
    rest = len(points) % CHUNK
    if rest:
        winding[-rest:] = winding_number(points[-rest:], damaged)

    sign = 1.0 if mesh_volume(triangles) > 0 else -1.0
    winding = winding * sign
    inside = winding > 0.5
    print(
        f"inside voxels {int(inside.sum())} of {len(points)}, volume from voxels {inside.sum().item() * cell:.4f}"
    )
    print(f"winding number: min {winding.min().item():+.3f} max {winding.max().item():+.3f}")
    unsure = ((winding > 0.25) & (winding < 0.75)).float().mean().item()
    print(f"share of doubtful voxels {unsure:.2e}")


if __name__ == "__main__":
    main()
