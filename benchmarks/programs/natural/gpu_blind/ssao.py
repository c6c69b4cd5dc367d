"""Screen-space ambient occlusion with an edge-aware blur, for an offline level viewer."""

import math
import os
import time

import torch
import torch.nn.functional as F

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"
WIDTH, HEIGHT = (96, 64) if SMOKE else (2560, 1440)
FRAMES = 3 if SMOKE else 90
SAMPLES = 16
RADIUS, BIAS = 0.6, 0.02
FOV = math.radians(60)
FOCAL = 0.5 * HEIGHT / math.tan(FOV / 2)


def gbuffer(t):
    """Analytic scene: a floor and a field of spheres. Returns view depth and normals."""
    ys, xs = torch.meshgrid(
        torch.arange(HEIGHT, device=DEVICE) + 0.5, torch.arange(WIDTH, device=DEVICE) + 0.5, indexing="ij"
    )
    ray = torch.stack([(xs - WIDTH / 2) / FOCAL, (HEIGHT / 2 - ys) / FOCAL, torch.ones_like(xs)], -1)
    depth = torch.full_like(xs, 30.0)
    normal = torch.tensor([0.0, 0.0, -1.0], device=DEVICE).expand(HEIGHT, WIDTH, 3).clone()
    floor = -1.5 / ray[..., 1]
    hit = (floor > 0) & (floor < depth)
    depth = torch.where(hit, floor, depth)
    normal[hit] = torch.tensor([0.0, 1.0, 0.0], device=DEVICE)
    for k in range(9):
        c = torch.tensor([(k % 3 - 1) * 2.0 + math.sin(t + k), -0.9, 5.0 + 2.2 * (k // 3)], device=DEVICE)
        a, b = (ray * ray).sum(-1), ray @ c
        disc = b * b - a * (c @ c - 0.8**2)
        z = (b - disc.clamp(min=0).sqrt()) / a
        hit = (disc > 0) & (z > 0) & (z < depth)
        depth = torch.where(hit, z, depth)
        normal = torch.where(hit[..., None], (ray * z[..., None] - c) / 0.8, normal)
    return depth, normal


def hemisphere_kernel(n, seed=2):
    g = torch.Generator().manual_seed(seed)
    v = torch.randn(n, 3, generator=g)
    v[:, 2] = v[:, 2].abs()
    v = F.normalize(v, dim=1) * torch.rand(n, 1, generator=g)
    scale = 0.1 + 0.9 * (torch.arange(n) / n) ** 2
    return (v * scale[:, None]).tolist()


class SSAO:
    def __init__(self):
        self.kernel = hemisphere_kernel(SAMPLES)
        ys, xs = torch.meshgrid(
            torch.arange(HEIGHT, device=DEVICE), torch.arange(WIDTH, device=DEVICE), indexing="ij"
        )
        self.rx = (xs + 0.5 - WIDTH / 2) / FOCAL
        self.ry = (HEIGHT / 2 - ys - 0.5) / FOCAL
        angle = torch.rand(4, 4, device=DEVICE) * 2 * math.pi
        angle = angle.repeat(math.ceil(HEIGHT / 4), math.ceil(WIDTH / 4))[:HEIGHT, :WIDTH]
        self.noise = torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)], -1)

    def occlusion(self, depth, normal):
        flat = depth.reshape(-1)
        px, py, pz = self.rx * depth, self.ry * depth, depth
        tangent = self.noise - normal * (self.noise * normal).sum(-1, keepdim=True)
        tangent = F.normalize(tangent, dim=-1)
        bitangent = torch.linalg.cross(normal, tangent, dim=-1)
        occ = torch.zeros_like(depth)
        for kx, ky, kz in self.kernel:
            off = (kx * tangent + ky * bitangent + kz * normal) * RADIUS
            sx, sy, sz = px + off[..., 0], py + off[..., 1], pz + off[..., 2]
            u = (sx / sz * FOCAL + WIDTH / 2).long().clamp(0, WIDTH - 1)
            v = (HEIGHT / 2 - sy / sz * FOCAL).long().clamp(0, HEIGHT - 1)
            scene = flat[v * WIDTH + u]
            near = (RADIUS / (depth - scene).abs().clamp(min=1e-4)).clamp(max=1)
            occ = occ + torch.where(scene <= sz - BIAS, near * near * (3 - 2 * near), 0.0)
        return 1 - occ / SAMPLES

    def blur(self, ao, depth, r=2):
        a = F.pad(ao[None, None], (r, r, r, r), mode="replicate")[0, 0]
        d = F.pad(depth[None, None], (r, r, r, r), mode="replicate")[0, 0]
        num, den = torch.zeros_like(ao), torch.zeros_like(ao)
        for dy in range(2 * r + 1):
            for dx in range(2 * r + 1):
                dd = d[dy : dy + HEIGHT, dx : dx + WIDTH]
                w = torch.exp(-(((dd - depth) / 0.15) ** 2))
                num = num + w * a[dy : dy + HEIGHT, dx : dx + WIDTH]
                den = den + w
        return num / den

    @torch.compile
    def render(self, depth, normal):
        ao = self.blur(self.occlusion(depth, normal), depth)
        light = (normal * torch.tensor([0.4, 0.8, -0.45], device=depth.device)).sum(-1).clamp(min=0)
        colour = ao * (0.35 + 0.65 * light)
        return (colour.clamp(0, 1) ** (1 / 2.2) * 255).to(torch.uint8)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    ssao = SSAO()
    scenes = [gbuffer(0.3 * i) for i in range(3 if SMOKE else 8)]
    ssao.render(*scenes[0])
    if not SMOKE:
        torch.cuda.synchronize()
    t0 = time.perf_counter()
    for i in range(FRAMES):
        image = ssao.render(*scenes[i % len(scenes)])
    mean = image.float().mean().item()
    print(f"{FRAMES / (time.perf_counter() - t0):.0f} fps at {WIDTH}x{HEIGHT}, mean level {mean:.1f}")


if __name__ == "__main__":
    main()
