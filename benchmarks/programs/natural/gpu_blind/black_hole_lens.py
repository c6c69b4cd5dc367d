"""Lensed sky of a Schwarzschild black hole, one frame per camera position.

Photons are integrated backwards from the camera until they fall in or escape.
"""

import math
import os
import time

import torch

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

WIDTH = max(64, int(1024 * math.sqrt(SCALE)))
HEIGHT = max(36, int(576 * math.sqrt(SCALE)))
FRAMES = 30
MAX_STEPS = 96
FAR = 40.0
HORIZON = 1.0


def sync():
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def camera_rays(angle, distance=14.0, fov=0.9):
    u = torch.linspace(-1, 1, WIDTH, device=device) * fov
    v = torch.linspace(-1, 1, HEIGHT, device=device) * fov * HEIGHT / WIDTH
    vv, uu = torch.meshgrid(v, u, indexing="ij")
    c, s = math.cos(angle), math.sin(angle)
    forward = torch.tensor([-c, -s, 0.0], device=device)
    right = torch.tensor([-s, c, 0.0], device=device)
    up = torch.tensor([0.0, 0.0, 1.0], device=device)
    d = forward + uu[..., None] * right + vv[..., None] * up
    d = torch.nn.functional.normalize(d, dim=-1).reshape(-1, 3)
    origin = -forward * distance
    return origin.expand_as(d).contiguous(), d


@torch.compile
def trace(pos, vel):
    n = pos.shape[0]
    sky = torch.zeros(n, 3, device=pos.device)
    glow = torch.zeros(n, device=pos.device)
    index = torch.arange(n, device=pos.device)
    h2 = torch.linalg.cross(pos, vel).square().sum(-1)
    steps = 0
    while index.numel() > 0 and steps < MAX_STEPS:
        r = pos.norm(dim=-1)
        dt = (0.12 * r).clamp(0.02, 1.5)[:, None]
        acc = -1.5 * h2[:, None] * pos / r[:, None].pow(5)
        vel_half = vel + 0.5 * dt * acc
        new_pos = pos + dt * vel_half
        new_r = new_pos.norm(dim=-1)
        new_acc = -1.5 * h2[:, None] * new_pos / new_r[:, None].pow(5)
        vel = vel_half + 0.5 * dt * new_acc

        crossed = (pos[:, 2] * new_pos[:, 2] < 0) & (new_r > 3.0) & (new_r < 9.0)
        temperature = torch.where(crossed, (3.0 / new_r).pow(0.75), torch.zeros_like(new_r))
        glow[index] += temperature
        pos = new_pos

        done = (new_r < HORIZON) | (new_r > FAR)
        if done.any():
            escaped = done & (new_r > FAR)
            sky[index[escaped]] = vel[escaped]
            alive = ~done
            pos, vel, h2, index = pos[alive], vel[alive], h2[alive], index[alive]
        steps += 1
    return sky, glow


@torch.compile
def shade(sky, glow):
    d = torch.nn.functional.normalize(sky, dim=-1)
    theta = torch.acos(d[:, 2].clamp(-1, 1))
    phi = torch.atan2(d[:, 1], d[:, 0])
    stars = (torch.sin(24 * theta) * torch.sin(24 * phi)).clamp_min(0).pow(20)
    stars = stars * (sky.square().sum(-1) > 0)
    disk = torch.stack([glow, 0.6 * glow.square(), 0.3 * glow.pow(3)], dim=-1)
    return 1.0 - torch.exp(-(stars[:, None] + 1.5 * disk))


@torch.no_grad()
def main():
    times = []
    for frame in range(FRAMES):
        pos, vel = camera_rays(2 * math.pi * frame / FRAMES)
        pos = pos + torch.tensor([0.0, 0.0, 1.5 + 0.05 * frame], device=device)
        sync()
        t0 = time.perf_counter()
        sky, glow = trace(pos, vel)
        image = shade(sky, glow)
        sync()
        times.append(time.perf_counter() - t0)
        if frame % 10 == 0:
            shadow = ((sky.abs().sum(-1) == 0) & (glow == 0)).float().mean().item()
            print(f"frame {frame:3d}  mean {image.mean().item():.4f}  shadow share {shadow:.4f}")
    tail = times[len(times) // 2 :]
    print(f"time per frame: {1e3 * sum(tail) / len(tail):.2f} ms")


if __name__ == "__main__":
    main()
