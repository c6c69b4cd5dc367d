"""Makes terrain from octaves of gradient noise with a hashed lattice, and its slopes for shading."""

import torch


def gradient(ix, iy, seed):
    h = ix * 374761393 + iy * 668265263 + seed * 144665
    h = (h ^ (h >> 13)) * 1274126177
    h = (h ^ (h >> 16)) & 0xFFFF
    angle = h.float() / 0xFFFF * 2 * torch.pi
    return angle.cos(), angle.sin()


def noise(x, y, seed):
    ix, iy = x.floor().long(), y.floor().long()
    fx, fy = x - ix, y - iy
    u, v = fx * fx * fx * (fx * (fx * 6 - 15) + 10), fy * fy * fy * (fy * (fy * 6 - 15) + 10)
    corner = []
    for dy in (0, 1):
        for dx in (0, 1):
            gx, gy = gradient(ix + dx, iy + dy, seed)
            corner.append(gx * (fx - dx) + gy * (fy - dy))
    return torch.lerp(torch.lerp(corner[0], corner[1], u), torch.lerp(corner[2], corner[3], u), v)


def terrain(x, y, seed):
    height = sum(noise(x * 2**k, y * 2**k, seed + k) * 0.5**k for k in range(5))
    gy, gx = torch.gradient(height)
    light = (1 - 0.7 * gx - 0.7 * gy) / (1 + gx * gx + gy * gy).sqrt()
    return height, light


y, x = torch.meshgrid(torch.linspace(0, 8, 400), torch.linspace(0, 8, 400), indexing="ij")
make = torch.compile(terrain, dynamic=False)
seed = torch.tensor(7)
for k in range(20):
    height, light = make(x + k * 0.1, y, seed)
print(height.std().item(), light.mean().item())
