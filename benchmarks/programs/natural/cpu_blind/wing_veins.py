"""Vein enhancement on insect wing scans: multi-scale Frangi ridge filter, no learning.

Scans come cropped to the wing, so every image has its own size.
"""

import math
import time

import torch
import torch.nn.functional as F

torch.manual_seed(8)

SIGMAS = (1.5, 2.0, 3.0, 4.5)
N_SCANS = 40


def gaussian_taps(sigma):
    """Gaussian and its first and second derivative, as 1-D filters."""
    r = int(math.ceil(3.5 * sigma))
    x = torch.arange(-r, r + 1).float()
    g = torch.exp(-0.5 * (x / sigma) ** 2)
    g = g / g.sum()
    return g, -x / sigma**2 * g, (x**2 / sigma**4 - 1 / sigma**2) * g


class FrangiFilter(torch.nn.Module):
    def __init__(self, sigmas=SIGMAS, beta=0.5, c=0.08):
        super().__init__()
        self.sigmas = sigmas
        self.beta = beta
        self.c = c
        for i, s in enumerate(sigmas):
            for order, taps in enumerate(gaussian_taps(s)):
                self.register_buffer(f"g{i}_{order}", taps)

    def separable(self, img, taps_y, taps_x):
        r = taps_y.numel() // 2
        out = F.pad(img, (r, r, r, r), mode="reflect")
        out = F.conv2d(out, taps_y.view(1, 1, -1, 1))
        return F.conv2d(out, taps_x.view(1, 1, 1, -1))

    def forward(self, img):
        best = torch.zeros_like(img)
        scale = torch.zeros_like(img)
        direction = torch.zeros_like(img)
        for i, s in enumerate(self.sigmas):
            g0, g1, g2 = (getattr(self, f"g{i}_{k}") for k in range(3))
            hxx = s**2 * self.separable(img, g0, g2)
            hyy = s**2 * self.separable(img, g2, g0)
            hxy = s**2 * self.separable(img, g1, g1)

            root = torch.sqrt(((hxx - hyy) * 0.5) ** 2 + hxy**2 + 1e-12)
            mean = (hxx + hyy) * 0.5
            l_a, l_b = mean + root, mean - root
            swap = l_a.abs() > l_b.abs()
            l1 = torch.where(swap, l_b, l_a)
            l2 = torch.where(swap, l_a, l_b)

            blob = (l1 / (l2 + 1e-6)) ** 2
            energy = l1**2 + l2**2
            v = torch.exp(-blob / (2 * self.beta**2)) * (1 - torch.exp(-energy / (2 * self.c**2)))
            v = torch.where(l2 > 0, v, 0.0)  # veins are dark
            theta = 0.5 * torch.atan2(2 * hxy, hxx - hyy)

            better = v > best
            best = torch.where(better, v, best)
            scale = torch.where(better, s, scale)
            direction = torch.where(better, theta, direction)
        return best, scale, direction


def flatten_background(img):
    """Divide by the membrane's brightness, estimated on a coarse grid."""
    coarse = F.avg_pool2d(img, 31, stride=16, padding=15, count_include_pad=False)
    field = F.interpolate(coarse, size=img.shape[-2:], mode="bilinear", align_corners=False)
    return (img / field.clamp(min=0.05)).clamp(0, 1.5)


def draw_wing(gen):
    h = int(torch.randint(280, 420, (1,), generator=gen))
    w = int(torch.randint(480, 760, (1,), generator=gen))
    y = torch.arange(h).float()[:, None] / h
    x = torch.arange(w).float()[None] / w
    img = 0.75 + 0.15 * torch.sin(2 * x + 1.3 * y)
    truth = torch.zeros(h, w, dtype=torch.bool)
    for _ in range(9):
        a, b, c, width = torch.rand(4, generator=gen).tolist()
        centre = a + 0.3 * (b - 0.5) * x + 0.2 * torch.sin(3 * x + 6 * c)
        half = (1.0 + 3.0 * width) / h
        d = (y - centre).abs()
        img = img - 0.35 * torch.exp(-0.5 * (d / half) ** 2)
        truth |= d < half
    img = img + 0.03 * torch.randn(h, w, generator=gen)
    return img.clamp(0, 1)[None, None], truth


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(1)
    frangi = torch.compile(FrangiFilter())
    tp = fp = fn = 0
    widths, coherent = [], []
    spent = 0.0
    for _ in range(N_SCANS):
        img, truth = draw_wing(gen)
        t0 = time.perf_counter()
        v, scale, direction = frangi(flatten_background(img))
        spent += time.perf_counter() - t0
        mask = v[0, 0] > 0.35
        tp += (mask & truth).sum().item()
        fp += (mask & ~truth).sum().item()
        fn += (~mask & truth).sum().item()
        sel = v > 0.35
        widths.append(scale[sel].mean().item())
        coherent.append(torch.cos(2 * direction[sel]).mean().abs().item())
    print(f"{N_SCANS} wings: precision {tp / (tp + fp):.3f}, recall {tp / (tp + fn):.3f}")
    print(
        f"mean scale {sum(widths) / len(widths):.2f} px, orientation coherence {sum(coherent) / len(coherent):.3f}"
    )
    print(f"filter {spent / N_SCANS * 1e3:.1f} ms per scan")


if __name__ == "__main__":
    main()
