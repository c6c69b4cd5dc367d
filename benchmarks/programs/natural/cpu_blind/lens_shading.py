"""Lens shading (vignetting) correction of raw bursts.

The sensor vendor gives a coarse mesh of flat-field responses per colour plane.
We turn the mesh into gains, upsample them to full resolution and apply them to
every frame of the burst before demosaicing.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)

H, W = 864, 1152
MESH_H, MESH_W = 27, 36
FRAMES = 40


class ShadingCorrection(nn.Module):
    def __init__(self, mesh_h, mesh_w, fov_deg=74.0, strength=0.85):
        super().__init__()
        ys = torch.linspace(-1, 1, mesh_h)[:, None]
        xs = torch.linspace(-1, 1, mesh_w)[None, :]
        r = torch.sqrt((ys * 0.75) ** 2 + xs**2)
        half = math.radians(fov_deg) / 2
        self.register_buffer("theta", torch.atan(r * math.tan(half)))
        self.register_buffer("black", torch.tensor(64.0 / 1023.0))
        self.strength = strength

    def gains(self, mesh):
        # residual measured falloff on top of the cos^4 law
        measured = (1.0 / mesh) ** self.strength
        return measured / torch.cos(self.theta) ** 4

    def forward(self, planes, mesh):
        g = self.gains(mesh)
        g = F.interpolate(g, size=planes.shape[-2:], mode="bicubic", align_corners=True)
        x = (planes - self.black).clamp_min(0.0) / (1.0 - self.black)
        x = x * g
        # highlight-safe rolloff near the clip point
        knee = 0.9
        over = (x - knee).clamp_min(0.0)
        return torch.where(x > knee, knee + over / (1.0 + over / (1.0 - knee)), x)


def synth_mesh(n):
    ys = torch.linspace(-1, 1, MESH_H)[:, None]
    xs = torch.linspace(-1, 1, MESH_W)[None, :]
    r2 = ys**2 + xs**2
    tint = torch.tensor([0.10, 0.07, 0.07, 0.12])[None, :, None, None]
    mesh = 1.0 - tint * r2
    return mesh + 0.002 * torch.randn(n, 4, MESH_H, MESH_W)


def synth_planes(falloff):
    yy = torch.arange(H)[:, None] / H
    xx = torch.arange(W)[None, :] / W
    base = 0.35 + 0.25 * torch.sin(9 * xx) * torch.cos(7 * yy)
    planes = torch.stack([base * s for s in (0.6, 1.0, 1.0, 0.5)])
    planes = planes * F.interpolate(falloff, size=(H, W), mode="bilinear")[0]
    return (planes + 0.06 + 0.01 * torch.randn(4, H, W)).clamp(0, 1)[None]


def uniformity(planes):
    c = planes[..., H // 2 - 50 : H // 2 + 50, W // 2 - 50 : W // 2 + 50].mean()
    e = planes[..., :60, :60].mean()
    return (e / c).item()


def main():
    shading = ShadingCorrection(MESH_H, MESH_W)
    correct = torch.compile(shading)

    # the mesh drifts with focus distance, one per frame
    meshes = synth_mesh(FRAMES)
    planes = synth_planes(meshes[:1] * torch.cos(shading.theta) ** 4)

    acc = torch.zeros_like(planes)
    times = []
    with torch.no_grad():
        for k in range(FRAMES):
            t0 = time.perf_counter()
            out = correct(planes, meshes[k : k + 1])
            times.append(time.perf_counter() - t0)
            acc += out
    acc /= FRAMES
    print(f"corner/centre before {uniformity(planes):.3f}  after {uniformity(acc):.3f}")
    print(f"median frame time {sorted(times)[len(times) // 2] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
