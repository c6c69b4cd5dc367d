"""KinectFusion-style volumetric mapping: fuse a stream of depth and colour
frames from a moving camera into a truncated signed distance volume."""

import math
import os
import time

import torch
import torch.nn as nn

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

RES = max(48, int(320 * SCALE ** (1 / 3)) // 8 * 8) if SCALE >= 0.5 else 64
IMG_H, IMG_W = (480, 640) if SCALE >= 0.5 else (120, 160)
EXTENT = 3.0
MAX_WEIGHT = 64.0


class TSDFVolume(nn.Module):
    def __init__(self, res, extent, intrinsics):
        super().__init__()
        self.voxel = extent / res
        self.trunc = 4 * self.voxel
        n = res**3
        self.register_buffer("tsdf", torch.ones(n))
        self.register_buffer("weight", torch.zeros(n))
        self.register_buffer("color", torch.zeros(n, 3))
        self.register_buffer("k", intrinsics)
        axis = (torch.arange(res) + 0.5) * self.voxel - extent / 2
        grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1)
        self.register_buffer("centres", grid.reshape(-1, 3))

    def integrate(self, depth, rgb, world_to_cam):
        h, w = depth.shape
        rot, trans = world_to_cam[:3, :3], world_to_cam[:3, 3]
        cam = self.centres @ rot.t() + trans
        z = cam[:, 2]
        safe_z = torch.where(z > 1e-3, z, torch.ones_like(z))
        u = torch.round(self.k[0, 0] * cam[:, 0] / safe_z + self.k[0, 2]).long()
        v = torch.round(self.k[1, 1] * cam[:, 1] / safe_z + self.k[1, 2]).long()
        inside = (z > 0.1) & (u >= 0) & (u < w) & (v >= 0) & (v < h)

        pixel = v.clamp(0, h - 1) * w + u.clamp(0, w - 1)
        measured = depth.flatten()[pixel]
        sdf = measured - z
        valid = inside & (measured > 0) & (sdf > -self.trunc)

        dist = torch.clamp(sdf / self.trunc, max=1.0)
        obs_w = torch.exp(-0.15 * z) / safe_z

        old_w = self.weight[valid]
        new_w = obs_w[valid]
        total = old_w + new_w
        self.tsdf[valid] = (self.tsdf[valid] * old_w + dist[valid] * new_w) / total

        seen = rgb.view(-1, 3)[pixel[valid]].float() / 255.0
        blend = (new_w / total).unsqueeze(-1)
        self.color[valid] = self.color[valid] * (1 - blend) + seen * blend
        self.weight[valid] = torch.clamp(total, max=MAX_WEIGHT)
        return valid.sum()

    def surface_voxels(self):
        return (self.tsdf.abs() < 0.5) & (self.weight > 1.0)


def look_at(eye, target, device):
    forward = target - eye
    forward = forward / forward.norm()
    up = torch.tensor([0.0, 1.0, 0.0], device=device)
    right = torch.linalg.cross(up, forward)
    right = right / right.norm()
    true_up = torch.linalg.cross(forward, right)
    rot = torch.stack([right, -true_up, forward])
    pose = torch.eye(4, device=device)
    pose[:3, :3] = rot
    pose[:3, 3] = -rot @ eye
    return pose


def render_frame(k, pose, h, w):
    """Analytic depth of two spheres, seen from the pose."""
    device = pose.device
    v, u = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    rays = torch.stack([(u - k[0, 2]) / k[0, 0], (v - k[1, 2]) / k[1, 1], torch.ones_like(u)], -1)
    depth = torch.full((h, w), float("inf"), device=device)
    rgb = torch.zeros(h, w, 3, dtype=torch.uint8, device=device)
    spheres = [((0.0, 0.0, 0.0), 0.7, (200, 60, 40)), ((0.6, 0.5, 0.3), 0.4, (40, 90, 220))]
    for centre, radius, paint in spheres:
        c = pose[:3, :3] @ torch.tensor(centre, device=device) + pose[:3, 3]
        a = rays.pow(2).sum(-1)
        b = (rays * c).sum(-1)
        disc = b * b - a * (c.dot(c) - radius * radius)
        hit = (b - disc.clamp_min(0).sqrt()) / a
        closer = (disc > 0) & (hit > 0.1) & (hit < depth)
        depth = torch.where(closer, hit, depth)
        rgb[closer] = torch.tensor(paint, dtype=torch.uint8, device=device)
    noisy = depth + 0.002 * depth.square() * torch.randn_like(depth)
    return torch.where(depth.isfinite(), noisy, torch.zeros_like(depth)), rgb


def main():
    torch.manual_seed(0)
    f = 525.0 * IMG_W / 640
    k = torch.tensor([[f, 0, IMG_W / 2], [0, f, IMG_H / 2], [0, 0, 1]])
    volume = TSDFVolume(RES, EXTENT, k).to(DEVICE)
    integrate = torch.compile(volume.integrate)

    frames = []
    n_views = 24 if SCALE >= 0.5 else 8
    for i in range(n_views):
        a = 2 * math.pi * i / n_views
        eye = torch.tensor([2.4 * math.cos(a), 0.6 * math.sin(2 * a), 2.4 * math.sin(a)], device=DEVICE)
        pose = look_at(eye, torch.zeros(3, device=DEVICE), DEVICE)
        depth, rgb = render_frame(volume.k, pose, IMG_H, IMG_W)
        frames.append((depth, rgb, pose))

    with torch.no_grad():
        for i in range(4):
            touched = integrate(*frames[i])
        int(touched)
        begin = time.perf_counter()
        passes = 2
        for i in range(passes * n_views):
            touched = integrate(*frames[i % n_views])
        last = int(touched)
        took = time.perf_counter() - begin
        surface = volume.surface_voxels()
        tone = volume.color[surface].mean(0).tolist()
        radius = volume.centres[surface].norm(dim=1).mean()
    print(f"{RES}^3 voxels, {1e3 * took / (passes * n_views):.2f} ms/frame, last touched {last}")
    print(
        f"surface voxels {int(surface.sum())}, mean radius {float(radius):.3f}, "
        f"tone {' '.join(f'{c:.3f}' for c in tone)}"
    )


if __name__ == "__main__":
    main()
