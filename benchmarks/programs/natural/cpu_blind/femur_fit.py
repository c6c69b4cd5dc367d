"""Fitting a template surface to a bone.

A triangle mesh (sphere template) is deformed so that its vertices lie
on the surface of a scanned femoral head, given here as an analytic radius
function plus scanner noise.  Regularisers: even edge lengths, smooth normals
across edges, and the enclosed volume known from the CT segmentation.
"""

import math
import time

import torch
from torch import nn

RINGS, SECTORS = 220, 320
STEPS = 25


def sphere_template(rings, sectors):
    """Vertices (V, 3) and faces (F, 3) of a latitude-longitude sphere."""
    theta = torch.linspace(0.02, math.pi - 0.02, rings)
    phi = torch.arange(sectors) * (2 * math.pi / sectors)
    t, p = torch.meshgrid(theta, phi, indexing="ij")
    verts = torch.stack([t.sin() * p.cos(), t.sin() * p.sin(), t.cos()], -1).view(-1, 3)
    i = torch.arange(rings - 1)[:, None]
    j = torch.arange(sectors)[None, :]
    jn = (j + 1) % sectors
    a, b = i * sectors + j, i * sectors + jn
    c, d = (i + 1) * sectors + j, (i + 1) * sectors + jn
    faces = torch.cat([torch.stack([a, c, b], -1).view(-1, 3), torch.stack([b, c, d], -1).view(-1, 3)])
    # meshing tools write vertices and faces in no useful order
    g = torch.Generator().manual_seed(2)
    order = torch.randperm(len(verts), generator=g)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(verts))
    faces = rank[faces][torch.randperm(len(faces), generator=g)]
    return verts[order], faces


def mesh_edges(faces):
    """Unique edges (E, 2) and the two faces at each inner edge (D, 2)."""
    n = len(faces)
    e = torch.cat([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    owner = torch.arange(n).repeat(3)
    e, _ = e.sort(1)
    key, inverse = torch.unique(e, dim=0, return_inverse=True)
    order = inverse.argsort(stable=True)
    sorted_inv = inverse[order]
    same = sorted_inv[1:] == sorted_inv[:-1]
    first = same.nonzero().squeeze(1)
    pairs = torch.stack([owner[order[first]], owner[order[first + 1]]], 1)
    return key, pairs


def bone_radius(unit):
    """Radius of the scanned head in direction `unit`, in cm."""
    x, y, z = unit.unbind(-1)
    return 2.4 + 0.25 * z * z - 0.12 * x * y + 0.5 * torch.exp(6.0 * (x - 1.0))


class MeshFit(nn.Module):
    def __init__(self, verts, faces, volume):
        super().__init__()
        edges, pairs = mesh_edges(faces)
        self.verts = nn.Parameter(verts.clone())
        self.register_buffer("faces", faces)
        self.register_buffer("edges", edges)
        self.register_buffer("pairs", pairs)
        self.volume = volume

    def forward(self, scan_noise):
        v = self.verts
        # distance to the scanned surface along the ray from the centre
        r = v.norm(dim=1)
        data = (r - bone_radius(v / r[:, None]) - scan_noise).square().mean()

        a, b, c = v[self.faces].unbind(1)  # triangle corners
        normal = torch.linalg.cross(b - a, c - a)
        volume = (a * normal).sum() / 6.0
        unit = normal / (normal.norm(dim=1, keepdim=True) + 1e-8)
        n0, n1 = unit[self.pairs].unbind(1)
        bend = (1.0 - (n0 * n1).sum(1)).mean()

        p, q = v[self.edges].unbind(1)
        stretch = (p - q).square().sum(1).mean()
        return data + 0.05 * bend + 0.5 * stretch + 1e-3 * (volume - self.volume).square()


def main():
    torch.manual_seed(4)
    verts, faces = sphere_template(RINGS, SECTORS)
    fit = MeshFit(2.3 * verts, faces, volume=66.0)
    print(f"{len(verts)} vertices, {len(faces)} faces")
    objective = torch.compile(fit)
    opt = torch.optim.Adam(fit.parameters(), lr=5e-3, fused=True)
    noise = 0.01 * torch.randn(len(verts))

    for step in range(STEPS + 2):
        t0 = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        loss = objective(noise)
        loss.backward()
        opt.step()
        ms = (time.perf_counter() - t0) * 1e3
        print(f"step {step:3d}  loss {loss.item():10.6f}  {ms:8.2f} ms")

    print(f"mean radius {fit.verts.detach().norm(dim=1).mean():.4f} cm")


if __name__ == "__main__":
    main()
