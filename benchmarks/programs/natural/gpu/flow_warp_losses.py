"""Unsupervised optical flow loss: backward warp, SSIM, edge-aware smoothness, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def warp(image, flow):
    n, _, h, w = flow.shape
    y, x = torch.meshgrid(
        torch.arange(h, device=flow.device), torch.arange(w, device=flow.device), indexing="ij"
    )
    gx = 2 * (x + flow[:, 0]) / (w - 1) - 1
    gy = 2 * (y + flow[:, 1]) / (h - 1) - 1
    return F.grid_sample(image, torch.stack([gx, gy], -1), padding_mode="border", align_corners=True)


def ssim(a, b):
    mu_a, mu_b = F.avg_pool2d(a, 3, 1), F.avg_pool2d(b, 3, 1)
    var_a = F.avg_pool2d(a * a, 3, 1) - mu_a**2
    var_b = F.avg_pool2d(b * b, 3, 1) - mu_b**2
    cov = F.avg_pool2d(a * b, 3, 1) - mu_a * mu_b
    s = ((2 * mu_a * mu_b + 1e-4) * (2 * cov + 9e-4)) / ((mu_a**2 + mu_b**2 + 1e-4) * (var_a + var_b + 9e-4))
    return ((1 - s) / 2).clamp(0, 1).mean()


def smooth(flow, image):
    wx = torch.exp(-10 * (image[..., 1:] - image[..., :-1]).abs().mean(1, keepdim=True))
    wy = torch.exp(-10 * (image[..., 1:, :] - image[..., :-1, :]).abs().mean(1, keepdim=True))
    return ((flow[..., 1:] - flow[..., :-1]).abs() * wx).mean() + (
        (flow[..., 1:, :] - flow[..., :-1, :]).abs() * wy
    ).mean()


def loss_fn(net, a, b):
    flow = F.interpolate(net(torch.cat([a, b], 1)), scale_factor=4, mode="bilinear", align_corners=True) * 4
    warped = warp(b, flow)
    photo = torch.sqrt((a - warped) ** 2 + 1e-6).mean()
    return 0.15 * photo + 0.85 * ssim(a, warped) + 0.1 * smooth(flow, a)


def build(device, compiled):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(6, 32, 5, 2, 2),
        nn.LeakyReLU(0.1),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.LeakyReLU(0.1),
        nn.Conv2d(64, 2, 3, padding=1),
    ).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    compute = torch.compile(loss_fn, backend=BACKEND) if compiled else loss_fn
    a, b = torch.rand(2, pick(8, 1), 3, pick(320, 32), pick(448, 48), device=device)

    def step():
        optimizer.zero_grad()
        loss = compute(net, a, b)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
