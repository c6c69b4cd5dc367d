# Non-rigid drift correction of a time-lapse microscopy stack.
#
# Every frame is registered to the first one with a coarse displacement grid (bilinear upsampling),
# local normalised cross-correlation and a bending penalty; a few Adam steps per frame, warm-started
# from the previous frame because the sample drifts slowly.

import math
import time

import torch
import torch.nn.functional as F

SIZE = 320  # pixels
GRID = 20  # control points per side
FRAMES = 40
STEPS = 6  # optimiser steps per frame
WINDOW = 9
LAMBDA = 5e-3


def synth_stack(seed=3):
    """Cells as soft blobs with texture, moved by a smooth field that grows with time."""
    g = torch.Generator().manual_seed(seed)
    u = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(u, u, indexing="ij")
    base = torch.zeros(SIZE, SIZE)
    for _ in range(90):
        cy, cx = (torch.rand(2, generator=g) * 1.9 - 0.95).tolist()
        r = 0.02 + 0.05 * torch.rand(1, generator=g).item()
        d2 = (yy - cy) ** 2 + (xx - cx) ** 2
        base = base + torch.exp(-d2 / r**2) * (1 + 0.3 * torch.cos(40 * (xx + yy)))
    grid = torch.stack([xx, yy], -1)[None]
    flow = F.interpolate(
        torch.randn(1, 2, 5, 5, generator=g), size=(SIZE, SIZE), mode="bicubic", align_corners=True
    )
    flow = flow.permute(0, 2, 3, 1)
    frames = []
    for t in range(FRAMES):
        amp = 0.03 * math.sin(math.pi * t / FRAMES / 2)
        img = F.grid_sample(base[None, None], grid + amp * flow, align_corners=True, padding_mode="border")
        frames.append(img + 0.03 * torch.randn(img.shape, generator=g))
    return torch.cat(frames), grid, flow


def box(x):
    k = torch.full((1, 1, WINDOW, 1), 1.0 / WINDOW, dtype=x.dtype)
    n = x.shape[1]
    x = F.conv2d(x, k.expand(n, 1, WINDOW, 1), padding=(WINDOW // 2, 0), groups=n)
    return F.conv2d(x, k.transpose(2, 3).expand(n, 1, 1, WINDOW), padding=(0, WINDOW // 2), groups=n)


def local_ncc(a, b, eps=1e-3):
    ma, mb, maa, mbb, mab = box(torch.cat([a, b, a * a, b * b, a * b], dim=1)).unbind(1)
    cov = mab - ma * mb
    var = (maa - ma * ma).clamp_min(0) * (mbb - mb * mb).clamp_min(0)
    return (cov * cov / (var + eps * eps)).mean()


def bending(d):
    dxx = d[..., 2:] - 2 * d[..., 1:-1] + d[..., :-2]
    dyy = d[..., 2:, :] - 2 * d[..., 1:-1, :] + d[..., :-2, :]
    dxy = d[..., 1:, 1:] - d[..., 1:, :-1] - d[..., :-1, 1:] + d[..., :-1, :-1]
    return (dxx**2).mean() + (dyy**2).mean() + 2 * (dxy**2).mean()


def bilinear(img, x, y):
    """Sample img (H, W) at pixel coordinates, clamped at the border."""
    h, w = img.shape
    x, y = x.clamp(0, w - 1.001), y.clamp(0, h - 1.001)
    x0, y0 = x.floor(), y.floor()
    wx, wy = x - x0, y - y0
    base = y0.long() * w + x0.long()
    flat = img.reshape(-1)
    top = flat[base] * (1 - wx) + flat[base + 1] * wx
    bottom = flat[base + w] * (1 - wx) + flat[base + w + 1] * wx
    return top * (1 - wy) + bottom * wy


@torch.compile
def objective(ctrl, moving, fixed, xs, ys):
    disp = F.interpolate(ctrl, size=(SIZE, SIZE), mode="bilinear", align_corners=True)[0]
    warped = bilinear(moving, xs + disp[0], ys + disp[1])
    edge = torch.sqrt(
        (warped[1:, 1:] - warped[:-1, 1:]) ** 2 + (warped[1:, 1:] - warped[1:, :-1]) ** 2 + 1e-6
    )
    edge_f = torch.sqrt((fixed[1:, 1:] - fixed[:-1, 1:]) ** 2 + (fixed[1:, 1:] - fixed[1:, :-1]) ** 2 + 1e-6)
    sim = local_ncc(warped[None, None], fixed[None, None])
    return 1.0 - sim + 0.1 * F.smooth_l1_loss(edge, edge_f) + LAMBDA * bending(ctrl)


def main():
    torch.manual_seed(0)
    stack, _, _ = synth_stack()
    stack = (stack - stack.mean()) / stack.std()
    fixed = stack[0, 0]
    ar = torch.arange(SIZE, dtype=torch.float32)
    ys, xs = torch.meshgrid(ar, ar, indexing="ij")
    ctrl = torch.zeros(1, 2, GRID, GRID, requires_grad=True)
    opt = torch.optim.Adam([ctrl], lr=0.25)
    raw, fixed_up = [], []
    t0 = time.time()
    for t in range(1, FRAMES):
        moving = stack[t, 0]
        for _ in range(STEPS):
            opt.zero_grad()
            loss = objective(ctrl, moving, fixed, xs, ys)
            loss.backward()
            opt.step()
        with torch.no_grad():
            disp = F.interpolate(ctrl, size=(SIZE, SIZE), mode="bilinear", align_corners=True)[0]
            aligned = bilinear(moving, xs + disp[0], ys + disp[1])
            raw.append((moving - fixed).square().mean().sqrt())
            fixed_up.append((aligned - fixed).square().mean().sqrt())
        if t % 8 == 0 or t == FRAMES - 1:
            print(
                f"frame {t:2d}: loss {loss.item():.4f}  rms before {raw[-1].item():.3f} after {fixed_up[-1].item():.3f}"
                f"  max shift {disp.norm(dim=0).max().item():.2f} px  {time.time() - t0:.1f} s"
            )
    print(f"mean rms {torch.stack(raw).mean().item():.3f} -> {torch.stack(fixed_up).mean().item():.3f}")


if __name__ == "__main__":
    main()
