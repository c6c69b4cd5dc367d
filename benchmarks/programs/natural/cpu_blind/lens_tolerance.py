"""Monte-Carlo tolerancing of a triplet lens by sequential ray tracing."""

import math
import time

import torch

RAYS = 360_000

# Cooke triplet, f = 50 mm: curvature, thickness to next surface, index after
CURV = torch.tensor([1 / 22.01, -1 / 435.76, -1 / 22.21, 1 / 20.29, 1 / 79.68, -1 / 18.40])
THICK = torch.tensor([3.26, 6.01, 1.00, 4.75, 2.95, 42.21])
INDEX = torch.tensor([1.0, 1.6204, 1.0, 1.6200, 1.0, 1.6204, 1.0])


def intersect(x, y, z, dx, dy, dz, c):
    """Move a ray to a sphere of curvature c with its vertex at z = 0."""
    t0 = -z / dz
    x, y = x + t0 * dx, y + t0 * dy
    f = c * (x * x + y * y)
    g = dz - c * (x * dx + y * dy)
    t = f / (g + torch.sqrt((g * g - c * f).clamp_min(1e-9)))
    return x + t * dx, y + t * dy, t * dz


def refract(x, y, z, dx, dy, dz, c, n1, n2):
    nx, ny, nz = -c * x, -c * y, 1 - c * z
    cos_i = dx * nx + dy * ny + dz * nz
    mu = n1 / n2
    cos_t = torch.sqrt((1 - mu * mu * (1 - cos_i * cos_i)).clamp_min(0.0))
    k = cos_t - mu * cos_i
    return mu * dx + k * nx, mu * dy + k * ny, mu * dz + k * nz


@torch.compile(fullgraph=True, dynamic=False)
def trace(px, py, field, curv, thick, index, decentre, defocus):
    dx = torch.zeros_like(px)
    dy = torch.sin(field).expand_as(px)
    dz = torch.cos(field).expand_as(px)
    x, y, z = px, py - 12.0 * torch.tan(field), torch.zeros_like(px)
    vignette = torch.ones_like(px)
    for s in range(6):
        y = y - decentre[s]
        x, y, z = intersect(x, y, z, dx, dy, dz, curv[s])
        vignette = vignette * (x * x + y * y < 81.0)
        dx, dy, dz = refract(x, y, z, dx, dy, dz, curv[s], index[s], index[s + 1])
        y = y + decentre[s]
        z = z - thick[s]
    t = (defocus - z) / dz
    x, y = x + t * dx, y + t * dy

    weight = vignette.sum()
    mx, my = (x * vignette).sum() / weight, (y * vignette).sum() / weight
    mx2, my2 = (x * x * vignette).sum() / weight, (y * y * vignette).sum() / weight
    rms = torch.sqrt((mx2 - mx * mx + my2 - my * my).clamp_min(0.0))
    return rms, my, weight / px.numel()


def pupil(gen):
    r = 5.5 * torch.sqrt(torch.rand(RAYS, generator=gen))
    a = 2 * math.pi * torch.rand(RAYS, generator=gen)
    return r * torch.cos(a), r * torch.sin(a)


@torch.inference_mode()
def main():
    gen = torch.Generator().manual_seed(5)
    px, py = pupil(gen)
    fields = [torch.tensor(math.radians(d)) for d in (0.0, 7.0, 14.0)]

    def build():
        curv = CURV * (1 + 2e-3 * torch.randn(6, generator=gen))
        thick = THICK + 0.02 * torch.randn(6, generator=gen)
        decentre = 0.01 * torch.randn(6, generator=gen)
        defocus = 0.03 * torch.randn((), generator=gen)
        return curv, thick, INDEX, decentre, defocus

    nominal = (CURV, THICK, INDEX, torch.zeros(6), torch.tensor(0.0))
    for f in fields:
        rms, height, through = trace(px, py, f, *nominal)
        print(f"nominal: rms spot {1e3 * rms:.1f} um at {height:.2f} mm, {100 * through:.0f}% through")

    spots = []
    t0 = time.perf_counter()
    for _ in range(30):
        lens = build()
        spots.append(torch.stack([trace(px, py, f, *lens)[0] for f in fields]))
    elapsed = time.perf_counter() - t0

    spots = 1e3 * torch.stack(spots)
    p90 = spots.quantile(0.9, dim=0)
    print("90th percentile rms spot [um]: " + ", ".join(f"{v:.1f}" for v in p90.tolist()))
    print(f"{1e3 * elapsed / (30 * len(fields)):.2f} ms per trace of {RAYS} rays")


if __name__ == "__main__":
    main()
