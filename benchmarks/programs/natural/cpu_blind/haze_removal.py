"""Dark-channel haze removal for a roadside camera (He, Sun, Tang), frame by frame.

Frames arrive as uint8 HWC.  Output is uint8 HWC, with a temporally smoothed airlight.
"""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

H, W = 360, 640
FRAMES = int(os.environ.get("FRAMES", "26"))
PATCH = 15
GUIDE_RADIUS = 20
OMEGA = 0.92
T_MIN = 0.12


class SyntheticRoad:
    """Moving textured scene with a depth ramp; returns (hazy, clear) uint8 frames."""

    def __init__(self, seed=11):
        g = torch.Generator().manual_seed(seed)
        self.tex = F.interpolate(
            torch.rand(1, 3, 45, 160, generator=g), size=(H, 2 * W), mode="bicubic", align_corners=False
        )[0].clamp(0, 1)
        fine = torch.rand(3, H, 2 * W, generator=g)
        self.tex = (0.85 * self.tex + 0.15 * fine) ** 1.8
        yy = torch.linspace(0, 1, H)[:, None].expand(H, W)
        self.depth = 0.25 + 1.5 * (1 - yy) ** 2
        self.boxes = torch.rand(9, 4, generator=g)
        self.air = torch.tensor([0.83, 0.86, 0.90])

    def frame(self, t):
        off = (t * 3) % W
        clear = self.tex[:, :, off : off + W].clone()
        depth = self.depth.clone()
        for i, (x, y, w, h) in enumerate(self.boxes.tolist()):
            x0 = int((x * W + t * (2 + i)) % (W - 90))
            y0 = int(60 + y * (H - 150))
            bw, bh = int(30 + 60 * w), int(20 + 50 * h)
            col = torch.tensor([0.9 * x, 0.5 * y, 0.7 * w])[:, None, None]
            clear[:, y0 : y0 + bh, x0 : x0 + bw] = col
            depth[y0 : y0 + bh, x0 : x0 + bw] = self.depth[min(y0 + bh, H - 1), 0]
        tr = torch.exp(-0.9 * depth)
        hazy = clear * tr + self.air[:, None, None] * (1 - tr)
        to8 = lambda im: (im.permute(1, 2, 0) * 255).round().to(torch.uint8).contiguous()
        return to8(hazy), to8(clear)


def erode(x, size):
    return -F.max_pool2d(-x, size, stride=1, padding=size // 2)


def box(x, r):
    k = 2 * r + 1
    x = F.avg_pool2d(x, (k, 1), stride=1, padding=(r, 0), count_include_pad=False)
    return F.avg_pool2d(x, (1, k), stride=1, padding=(0, r), count_include_pad=False)


class Dehazer(nn.Module):
    def __init__(self, keep=0.001, momentum=0.9):
        super().__init__()
        self.n_top = max(int(H * W * keep), 1)
        self.momentum = momentum
        self.register_buffer("luma", torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1))

    def airlight(self, img, dark):
        idx = dark.flatten().topk(self.n_top).indices
        return img.flatten(2)[0][:, idx].mean(1)

    def refine(self, guide, p, eps=1e-3):
        stack = torch.cat([guide, p, guide * p, guide * guide], 1)
        mi, mp, mip, mii = box(stack, GUIDE_RADIUS).unbind(1)
        a = (mip - mi * mp) / (mii - mi * mi + eps)
        b = mp - a * mi
        ab = box(torch.stack([a, b], 1), GUIDE_RADIUS)
        return ab[:, :1] * guide + ab[:, 1:]

    def forward(self, frame, air_prev):
        img = frame.permute(2, 0, 1)[None].float() / 255
        dark = erode(img.amin(1, keepdim=True), PATCH)
        air = self.airlight(img, dark)
        air = self.momentum * air_prev + (1 - self.momentum) * air
        a = air.view(1, 3, 1, 1)
        trans = 1 - OMEGA * erode((img / a).amin(1, keepdim=True), PATCH)
        guide = (img * self.luma).sum(1, keepdim=True)
        trans = self.refine(guide, trans).clamp(T_MIN, 1)
        clear = (img - a) / trans + a
        clear = clear.clamp(0, 1)
        return (clear[0].permute(1, 2, 0) * 255).round().to(torch.uint8), air, trans


def psnr(a, b):
    mse = (a.float() - b.float()).square().mean()
    return (10 * torch.log10(255.0**2 / mse)).item()


@torch.inference_mode()
def main():
    src = SyntheticRoad()
    net = torch.compile(Dehazer().eval())
    air = torch.full((3,), 0.95)
    ms, before, after = [], [], []
    for t in range(FRAMES):
        hazy, clear = src.frame(t)
        t0 = time.perf_counter()
        out, air, trans = net(hazy, air)
        ms.append((time.perf_counter() - t0) * 1e3)
        if t % 10 == 0:
            before.append(psnr(hazy, clear))
            after.append(psnr(out, clear))
            print(
                f"frame {t:3d}  {ms[-1]:7.1f} ms  air {[round(v, 3) for v in air.tolist()]}  "
                f"mean t {trans.mean():.3f}  PSNR {before[-1]:.2f} -> {after[-1]:.2f} dB"
            )
    s = sorted(ms[1:] or ms)
    print(
        f"median {s[len(s) // 2]:.1f} ms/frame ({1e3 / s[len(s) // 2]:.1f} fps), "
        f"mean PSNR {sum(before) / len(before):.2f} -> {sum(after) / len(after):.2f} dB, "
        f"total {sum(ms) / 1e3:.2f} s"
    )


if __name__ == "__main__":
    main()
