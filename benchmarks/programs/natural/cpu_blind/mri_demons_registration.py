"""Diffeomorphic demons registration of 2-D MRI slices."""

import statistics
import time

import torch
import torch.nn.functional as F

BATCH = 4
SIZE = 256
SQUARINGS = 5


def gaussian_kernel(sigma, radius):
    x = torch.arange(-radius, radius + 1, dtype=torch.float32)
    k = torch.exp(-0.5 * (x / sigma) ** 2)
    return k / k.sum()


def identity_grid(batch, size):
    axis = torch.linspace(-1.0, 1.0, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack((xx, yy)).expand(batch, 2, size, size).contiguous()


def warp(image, disp, grid):
    coords = (grid + disp).permute(0, 2, 3, 1)
    return F.grid_sample(image, coords, mode="bilinear", padding_mode="border", align_corners=True)


def smooth(field, kernel):
    c = field.shape[1]
    r = kernel.numel() // 2
    kx = kernel.view(1, 1, 1, -1).expand(c, 1, 1, -1)
    ky = kernel.view(1, 1, -1, 1).expand(c, 1, -1, 1)
    field = F.conv2d(field, kx, padding=(0, r), groups=c)
    return F.conv2d(field, ky, padding=(r, 0), groups=c)


def exponentiate(velocity, grid):
    disp = velocity / (2**SQUARINGS)
    for _ in range(SQUARINGS):
        disp = disp + warp(disp, disp, grid)
    return disp


def gradient(image):
    dx = F.pad(image[..., :, 2:] - image[..., :, :-2], (1, 1, 0, 0)) * 0.5
    dy = F.pad(image[..., 2:, :] - image[..., :-2, :], (0, 0, 1, 1)) * 0.5
    return torch.cat((dx, dy), dim=1)


def demons_step(fixed, moving, velocity, grid, kernel):
    disp = exponentiate(velocity, grid)
    warped = warp(moving, disp, grid)
    diff = fixed - warped
    grad = gradient(warped)
    denom = grad.square().sum(dim=1, keepdim=True) + diff.square() + 1e-4
    update = diff * grad / denom * (2.0 / SIZE)
    velocity = smooth(velocity + update, kernel)
    return velocity, diff.square().mean()


def phantom(batch, size, seed):
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    out = torch.zeros(batch, 1, size, size)
    for b in range(batch):
        for _ in range(12):
            cx, cy = (torch.rand(2, generator=g) - 0.5).tolist()
            s = 0.05 + 0.2 * torch.rand(1, generator=g).item()
            out[b, 0] += torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * s * s))
    return out / out.amax(dim=(2, 3), keepdim=True)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    fixed = phantom(BATCH, SIZE, 1)
    grid = identity_grid(BATCH, SIZE)
    kernel = gaussian_kernel(1.5, 5)
    bend = smooth(torch.randn(BATCH, 2, SIZE, SIZE), gaussian_kernel(12.0, 36))
    moving = warp(fixed, bend * 1.5, grid)
    velocity = torch.zeros(BATCH, 2, SIZE, SIZE)

    step = torch.compile(demons_step, dynamic=False)

    times = []
    with torch.no_grad():
        for _ in range(5):
            velocity, loss = step(fixed, moving, velocity, grid, kernel)
        first = loss.item()
        for _ in range(40):
            start = time.perf_counter()
            velocity, loss = step(fixed, moving, velocity, grid, kernel)
            times.append(time.perf_counter() - start)

    print(f"mse {first:.6f} -> {loss.item():.6f}")
    print(f"time per iteration: {statistics.median(times) * 1e3:.3f} ms")
    print(f"checksum: {velocity.abs().sum().item():.4f}")


if __name__ == "__main__":
    main()
