"""Colour QC of encoded video: CIEDE2000 between master and encode, per frame."""

import math
import os

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
FRAMES = 2 if SMOKE else 8
H, W = (36, 64) if SMOKE else (1080, 1920)
BATCHES = 4 if SMOKE else 400

M = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1.0, 1.08883)
POW25_7 = 25.0**7


def srgb_to_lab(rgb):
    lin = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    r, g, b = lin.unbind(1)
    f = []
    for row, white in zip(M, WHITE):
        t = (row[0] * r + row[1] * g + row[2] * b) / white
        f.append(torch.where(t > 0.008856, t.clamp_min(1e-6) ** (1 / 3), 7.787 * t + 16 / 116))
    fx, fy, fz = f
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def hue(b, a):
    h = torch.atan2(b, a)
    return torch.where(h < 0, h + 2 * math.pi, h)


def ciede2000(lab1, lab2):
    l1, a1, b1 = lab1
    l2, a2, b2 = lab2
    c_bar = 0.5 * (torch.sqrt(a1**2 + b1**2) + torch.sqrt(a2**2 + b2**2))
    c7 = c_bar**7
    g = 0.5 * (1 - torch.sqrt(c7 / (c7 + POW25_7)))
    a1p, a2p = (1 + g) * a1, (1 + g) * a2
    c1, c2 = torch.sqrt(a1p**2 + b1**2), torch.sqrt(a2p**2 + b2**2)
    h1, h2 = hue(b1, a1p), hue(b2, a2p)

    dl, dc = l2 - l1, c2 - c1
    dh = h2 - h1
    dh = torch.where(dh > math.pi, dh - 2 * math.pi, dh)
    dh = torch.where(dh < -math.pi, dh + 2 * math.pi, dh)
    dhp = 2 * torch.sqrt(c1 * c2) * torch.sin(0.5 * dh)

    lm, cm = 0.5 * (l1 + l2), 0.5 * (c1 + c2)
    hm = 0.5 * (h1 + h2)
    hm = torch.where((h1 - h2).abs() > math.pi, hm + math.pi, hm)
    t = (
        1
        - 0.17 * torch.cos(hm - math.pi / 6)
        + 0.24 * torch.cos(2 * hm)
        + 0.32 * torch.cos(3 * hm + math.pi / 30)
        - 0.20 * torch.cos(4 * hm - 63 * math.pi / 180)
    )
    l50 = (lm - 50) ** 2
    sl = 1 + 0.015 * l50 / torch.sqrt(20 + l50)
    sc = 1 + 0.045 * cm
    sh = 1 + 0.015 * cm * t
    theta = math.pi / 6 * torch.exp(-(((hm * 180 / math.pi - 275) / 25) ** 2))
    cm7 = cm**7
    rt = -2 * torch.sqrt(cm7 / (cm7 + POW25_7)) * torch.sin(2 * theta)
    x, y, z = dl / sl, dc / sc, dhp / sh
    return torch.sqrt((x * x + y * y + z * z + rt * y * z).clamp_min(0))


@torch.compile
def frame_scores(master, encode):
    de = ciede2000(srgb_to_lab(master), srgb_to_lab(encode))
    visible = (de > 2.3).float().mean((1, 2))
    return de.mean((1, 2)), de.amax((1, 2)), visible


def make_clip():
    g = torch.Generator(device=DEVICE).manual_seed(2)
    yy = torch.linspace(0, 1, H, device=DEVICE).view(1, 1, H, 1)
    xx = torch.linspace(0, 1, W, device=DEVICE).view(1, 1, 1, W)
    phase = torch.rand(FRAMES, 3, 1, 1, device=DEVICE, generator=g) * 6.28
    clip = 0.5 + 0.4 * torch.sin(9 * xx + 5 * yy + phase)
    return (clip + 0.03 * torch.randn(FRAMES, 3, H, W, device=DEVICE, generator=g)).clamp(0, 1)


@torch.no_grad()
def main():
    master = make_clip()
    noise = torch.randn_like(master)
    encodes = [(master + s * noise).clamp(0, 1) for s in (0.004, 0.006, 0.008, 0.011, 0.015, 0.020)]
    if DEVICE == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    rows = []
    for i in range(BATCHES):
        if i == BATCHES // 2 and DEVICE == "cuda":
            start.record()
        rows.append(torch.stack(frame_scores(master, encodes[i % len(encodes)])))
    if DEVICE == "cuda":
        end.record()
        torch.cuda.synchronize()
        n = (BATCHES - BATCHES // 2) * FRAMES
        print(f"{start.elapsed_time(end) / n:.3f} ms per frame")
    scores = torch.stack(rows).cpu()
    print(
        f"mean dE00 {scores[:, 0].mean():.3f}  worst pixel {scores[:, 1].max():.2f}  "
        f"visible {100 * scores[:, 2].mean():.1f}%"
    )
    bad = (scores[:, 0] > 1.5).sum().item()
    print(f"{bad} of {BATCHES * FRAMES} frames above the mean dE00 threshold")


if __name__ == "__main__":
    main()
