"""Background subtraction with a per-pixel mixture of Gaussians (Stauffer & Grimson style).

Runs on a fixed yard camera; outputs a cleaned foreground mask and the motion area per zone.
"""

import argparse
import time

import torch
import torch.nn.functional as F

K = 4
ALPHA = 0.02
MATCH_SIGMA = 2.5
INIT_VAR = 225.0
MIN_VAR = 16.0
BACKGROUND = 0.18


def init_model(frame):
    """frame [H, W, 3] uint8 -> weight [K, H, W], mean [K, 3, H, W], var [K, H, W]."""
    x = frame.permute(2, 0, 1).float()
    h, w = x.shape[1:]
    mean = x.unsqueeze(0).repeat(K, 1, 1, 1)
    mean[1:] += torch.linspace(-60, 60, K - 1).view(-1, 1, 1, 1)
    weight = torch.full((K, h, w), 0.05)
    weight[0] = 1.0 - 0.05 * (K - 1)
    var = torch.full((K, h, w), INIT_VAR)
    return weight, mean, var


def chroma_shadow(x, bg, low=0.5, high=0.95, tol=0.12):
    """Pixels that are a darker version of the background are shadow, not foreground."""
    lum = x.sum(0) / (bg.sum(0) + 1.0)
    cx = x / (x.sum(0, keepdim=True) + 1.0)
    cb = bg / (bg.sum(0, keepdim=True) + 1.0)
    same_colour = (cx - cb).abs().amax(dim=0) < tol
    return (lum > low) & (lum < high) & same_colour


def update(frame, weight, mean, var):
    x = frame.permute(2, 0, 1).float()
    diff = x.unsqueeze(0) - mean
    dist2 = (diff * diff).sum(dim=1)
    close = dist2 < (MATCH_SIGMA**2) * 3 * var

    # best matching component per pixel: closest in normalised distance
    score = torch.where(close, dist2 / var, torch.full_like(dist2, 1e9))
    best = score.amin(dim=0, keepdim=True)
    matched = close & (score == best)
    any_match = close.any(dim=0, keepdim=True)
    m = matched.float()

    rho = ALPHA * m / weight.clamp(min=ALPHA)
    rho = rho.clamp(max=0.5)
    new_mean = mean + rho.unsqueeze(1) * diff
    new_var = (var + rho * (dist2 / 3.0 - var)).clamp(min=MIN_VAR)
    new_weight = (1 - ALPHA) * weight + ALPHA * m

    # nothing matched: the weakest component is restarted at the pixel
    weakest = new_weight == new_weight.amin(dim=0, keepdim=True)
    restart = weakest & ~any_match
    new_mean = torch.where(restart.unsqueeze(1), x.unsqueeze(0), new_mean)
    new_var = torch.where(restart, torch.full_like(new_var, INIT_VAR), new_var)
    new_weight = torch.where(restart, torch.full_like(new_weight, 0.05), new_weight)
    new_weight = new_weight / new_weight.sum(dim=0, keepdim=True)

    is_bg = (matched & (weight > BACKGROUND)).any(dim=0)
    bg_share = new_weight * (new_weight > BACKGROUND)
    bg = (bg_share.unsqueeze(1) * new_mean).sum(0) / bg_share.sum(0).clamp(min=1e-3)
    fg = ~is_bg & ~chroma_shadow(x, bg)
    return fg, new_weight, new_mean, new_var


def clean(mask, size=3):
    """Opening followed by closing."""
    m = mask.float()[None, None]
    p = size // 2
    m = -F.max_pool2d(-m, size, stride=1, padding=p)
    m = F.max_pool2d(m, size, stride=1, padding=p)
    m = F.max_pool2d(m, size, stride=1, padding=p)
    m = -F.max_pool2d(-m, size, stride=1, padding=p)
    return m[0, 0]


def process(frame, weight, mean, var, zones):
    fg, weight, mean, var = update(frame, weight, mean, var)
    mask = clean(fg)
    area = (zones * mask).sum(dim=(1, 2)) / zones.sum(dim=(1, 2))
    return mask, area, weight, mean, var


class Yard:
    def __init__(self, h, w, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.h, self.w = h, w
        coarse = torch.rand(1, 3, 9, 12, generator=self.g) * 160 + 40
        self.base = F.interpolate(coarse, size=(h, w), mode="bilinear")[0]

    def frame(self, t):
        x = self.base + 6.0 * torch.randn(3, self.h, self.w, generator=self.g)
        y0, x0 = (20 + 2 * t) % (self.h - 50), (15 + 5 * t) % (self.w - 70)
        x[:, y0 : y0 + 40, x0 : x0 + 60] = torch.tensor([210.0, 60.0, 40.0]).view(3, 1, 1)
        x[:, y0 + 40 : y0 + 48, x0 : x0 + 60] *= 0.7
        return x.clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--height", type=int, default=270)
    ap.add_argument("--width", type=int, default=480)
    ap.add_argument("--frames", type=int, default=60)
    args = ap.parse_args()

    yard = Yard(args.height, args.width, seed=4)
    clip = [yard.frame(t) for t in range(args.frames)]
    zones = torch.zeros(3, args.height, args.width)
    for i in range(3):
        zones[i, :, i * args.width // 3 : (i + 1) * args.width // 3] = 1.0

    state = init_model(clip[0])
    step = torch.compile(process)
    with torch.inference_mode():
        for f in clip[:3]:
            step(f, *state, zones)
        peak = torch.zeros(3)
        t0 = time.perf_counter()
        for f in clip:
            mask, area, *state = step(f, *state, zones)
            peak = torch.maximum(peak, area)
        dt = (time.perf_counter() - t0) / len(clip)
    print("peak area per zone", [round(v, 4) for v in peak.tolist()], "last mask", int(mask.sum()))
    print(f"{dt * 1e3:.2f} ms per frame, {1 / dt:.0f} fps")


if __name__ == "__main__":
    main()
