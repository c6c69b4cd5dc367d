"""Particle image velocimetry of a vortex pair: windowed FFT cross-correlation, two passes with image deformation."""

import logging
import os
import time

import torch
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("piv")

SMOKE = os.environ.get("SMOKE") == "1"
dev = "cuda" if torch.cuda.is_available() else "cpu"
SIZE = 160 if SMOKE else 1536
PARTICLES = 900 if SMOKE else 90_000
PAIRS = 3 if SMOKE else 70


def windows(img, ws):
    """(H, W) -> (ny, nx, ws, ws), half overlapping."""
    return img.unfold(0, ws, ws // 2).unfold(1, ws, ws // 2)


def subpixel(c, idx, n):
    """Three-point Gaussian fit around the peak of every correlation plane c (..., n, n)."""
    py, px = idx // n, idx % n
    flat = c.flatten(-2)

    def at(y, x):
        return flat.gather(-1, ((y % n) * n + x % n).unsqueeze(-1)).squeeze(-1).clamp_min(1e-6).log()

    mid = at(py, px)
    u, d, l, r = at(py - 1, px), at(py + 1, px), at(py, px - 1), at(py, px + 1)
    dy = (u - d) / (2 * (u + d - 2 * mid) - 1e-9)
    dx = (l - r) / (2 * (l + r - 2 * mid) - 1e-9)
    fy, fx = py + dy.clamp(-0.5, 0.5), px + dx.clamp(-0.5, 0.5)
    half = n // 2
    return torch.where(fy > half, fy - n, fy), torch.where(fx > half, fx - n, fx)


def neighbours(f):
    """3x3 neighbourhood without the centre: (2, ny, nx) -> (2, 8, ny, nx)."""
    p = F.pad(f.unsqueeze(0), (1, 1, 1, 1), mode="reflect")
    n = p.unfold(2, 3, 1).unfold(3, 3, 1).flatten(-2)[0]
    keep = [0, 1, 2, 3, 5, 6, 7, 8]
    return n[..., keep].permute(0, 3, 1, 2)


def validate(disp, thresh=2.0):
    """Normalised median test (Westerweel & Scarano); bad vectors become the median."""
    nb = neighbours(disp)
    med = nb.median(1).values
    fluct = (nb - med.unsqueeze(1)).abs().median(1).values
    bad = ((disp - med).abs() / (fluct + 0.1) > thresh).any(0)
    return torch.where(bad, med, disp), bad


@torch.compile
def piv_pass(a, b, ws: int, guess=None):
    if guess is not None:
        # deform both images symmetrically by the predictor
        h, w = a.shape
        dense = F.interpolate(guess.unsqueeze(0), size=(h, w), mode="bicubic", align_corners=True)[0]
        yy = torch.arange(h, device=a.device, dtype=a.dtype).view(-1, 1)
        xx = torch.arange(w, device=a.device, dtype=a.dtype).view(1, -1)

        def warp(img, s):
            gy = (yy + s * dense[0]) / (h - 1) * 2 - 1
            gx = (xx + s * dense[1]) / (w - 1) * 2 - 1
            return F.grid_sample(img[None, None], torch.stack([gx, gy], -1)[None], align_corners=True)[0, 0]

        a, b = warp(a, -0.5), warp(b, 0.5)
    wa, wb = windows(a, ws), windows(b, ws)
    wa = wa - wa.mean((-2, -1), keepdim=True)
    wb = wb - wb.mean((-2, -1), keepdim=True)
    n = 2 * ws
    fa, fb = torch.fft.rfft2(wa, s=(n, n)), torch.fft.rfft2(wb, s=(n, n))
    corr = torch.fft.irfft2(fa.conj() * fb, s=(n, n))
    norm = (wa.pow(2).sum((-2, -1)) * wb.pow(2).sum((-2, -1))).sqrt() + 1e-6
    corr = corr / norm[..., None, None]
    peak, idx = corr.flatten(-2).max(-1)
    dy, dx = subpixel(corr, idx, n)
    disp = torch.stack([dy, dx])
    if guess is not None:
        base = F.interpolate(guess.unsqueeze(0), size=disp.shape[1:], mode="bilinear", align_corners=True)[0]
        disp = disp + base
    disp, bad = validate(disp)
    return disp, peak, bad


class VortexPair:
    def __init__(self, seed):
        self.g = torch.Generator(device=dev).manual_seed(seed)

    def velocity(self, p, t):
        v = torch.zeros_like(p)
        for sign, cy in ((1, 0.35), (-1, 0.65)):
            c = torch.tensor([cy, 0.3 + 0.3 * t], device=dev) * SIZE
            d = p - c
            r2 = d.pow(2).sum(-1, keepdim=True)
            core = (0.08 * SIZE) ** 2
            g = sign * 0.9 * SIZE * (1 - torch.exp(-r2 / core)) / (r2 + 1)
            v += g * torch.stack([d[:, 1], -d[:, 0]], -1)
        return v

    def render(self, p):
        img = torch.zeros(SIZE * SIZE, device=dev)
        base = p.floor()
        for oy in range(-2, 3):
            for ox in range(-2, 3):
                q = base + torch.tensor([oy, ox], device=dev)
                val = 200 * torch.exp(-((q - p) ** 2).sum(-1) / 1.2)
                ok = ((q >= 0) & (q < SIZE)).all(-1)
                lin = (q[:, 0] * SIZE + q[:, 1]).long().clamp(0, SIZE * SIZE - 1)
                img.index_add_(0, lin, val * ok)
        img = img + 5 * torch.randn(img.shape, generator=self.g, device=dev).abs()
        return img.clamp(0, 255).to(torch.uint8).view(SIZE, SIZE)

    def pair(self, t):
        p = torch.rand(PARTICLES, 2, generator=self.g, device=dev) * SIZE
        v = self.velocity(p, t)
        return self.render(p - v / 2), self.render(p + v / 2)

    def truth(self, ny, nx, ws, t):
        gy = (torch.arange(ny, device=dev) * (ws // 2) + (ws - 1) / 2).float()
        gx = (torch.arange(nx, device=dev) * (ws // 2) + (ws - 1) / 2).float()
        pts = torch.stack(torch.meshgrid(gy, gx, indexing="ij"), -1).view(-1, 2)
        return self.velocity(pts, t).T.view(2, ny, nx)


def main():
    cam = VortexPair(6)
    start, errs, outliers, enst = time.time(), [], 0, []
    for i in range(PAIRS):
        t = i / PAIRS
        a, b = (x.float() for x in cam.pair(t))
        coarse, _, _ = piv_pass(a, b, 64)
        fine, peak, bad = piv_pass(a, b, 32, coarse)
        ref = cam.truth(fine.shape[1], fine.shape[2], 32, t)
        errs.append((fine - ref).pow(2).sum(0).sqrt().median())
        outliers += int(bad.sum())
        curl = torch.gradient(fine[1], dim=0)[0] - torch.gradient(fine[0], dim=1)[0]
        enst.append(curl.pow(2).mean())
        if i % 20 == 0:
            log.info("pair %d median error %.4f px, mean peak %.3f", i, errs[-1].item(), peak.mean().item())
    log.info("total %.2f s for %d pairs", time.time() - start, PAIRS)
    print(
        f"median error {torch.stack(errs).mean():.5f} px  outliers {outliers}  enstrophy {torch.stack(enst).mean():.6f}"
    )


if __name__ == "__main__":
    main()
