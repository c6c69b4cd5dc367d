"""Golden-angle radial real-time MRI of a speaking tongue: sliding-window CG-SENSE with torchkbnufft.

Phantom: moving ellipses with smooth phase; 6 coils; each frame is rebuilt from the last 21 spokes with
Tikhonov-regularised conjugate gradients, warm-started with the frame before.
"""

import math
import time

import torch
import torchkbnufft as tkbn

N = 128  # image matrix
READ = 256  # samples per spoke (2x oversampled)
SPOKES = 21
COILS = 6
FRAMES = 20
CG_ITERS = 6
LAMBDA = 0.02

GOLDEN = math.pi * (math.sqrt(5.0) - 1.0) / 2.0


def trajectory(first, count):
    idx = torch.arange(first, first + count, dtype=torch.float32)
    ang = idx * GOLDEN
    r = torch.linspace(-math.pi, math.pi * (1 - 2.0 / READ), READ)
    kx = r[None] * torch.cos(ang)[:, None]
    ky = r[None] * torch.sin(ang)[:, None]
    return torch.stack([ky.reshape(-1), kx.reshape(-1)])


def coil_maps():
    ax = torch.linspace(-1, 1, N)
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")
    maps = []
    for c in range(COILS):
        a = 2 * math.pi * c / COILS
        d2 = (xx - 1.2 * math.cos(a)) ** 2 + (yy - 1.2 * math.sin(a)) ** 2
        maps.append(
            torch.exp(-d2 / 1.4) * torch.exp(1j * (a + 0.8 * xx * math.cos(a) + 0.6 * yy * math.sin(a)))
        )
    maps = torch.stack(maps)
    return (maps / maps.abs().pow(2).sum(0).sqrt()).to(torch.complex64)[None]


def phantom(t):
    """Vocal tract slice at time t in seconds: head, jaw, tongue, air way."""
    ax = torch.linspace(-1, 1, N)
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")

    def ellipse(cx, cy, rx, ry, rot=0.0):
        c, s = math.cos(rot), math.sin(rot)
        u, v = (xx - cx) * c + (yy - cy) * s, -(xx - cx) * s + (yy - cy) * c
        return torch.sigmoid((1.0 - (u / rx) ** 2 - (v / ry) ** 2) * 30.0)

    head = 0.55 * ellipse(0.0, -0.05, 0.75, 0.88)
    air = 0.5 * ellipse(0.05, 0.10, 0.42, 0.30)
    lift = 0.10 * math.sin(2 * math.pi * 4.0 * t)
    tongue = 0.65 * ellipse(0.02, 0.22 - lift, 0.30, 0.17 + 0.04 * math.cos(2 * math.pi * 4.0 * t), 0.2)
    palate = 0.35 * ellipse(0.0, -0.18, 0.45, 0.05)
    mag = (head - air + tongue + palate).clamp_min(0.0)
    return (mag * torch.exp(1j * 0.6 * (xx**2 - yy))).to(torch.complex64)[None, None]


class CGSense:
    def __init__(self, smaps):
        self.smaps = smaps
        self.nufft = tkbn.KbNufft(im_size=(N, N), grid_size=(2 * N, 2 * N))
        self.adjoint = tkbn.KbNufftAdjoint(im_size=(N, N), grid_size=(2 * N, 2 * N))
        self.normal = torch.compile(self._normal)

    def _normal(self, x, omega, dcf):
        """(A^H W A + lambda I) x"""
        y = self.nufft(x, omega, smaps=self.smaps, norm="ortho")
        back = self.adjoint(y * dcf, omega, smaps=self.smaps, norm="ortho")
        return back + LAMBDA * x

    def solve(self, kdata, omega, dcf, x0):
        b = self.adjoint(kdata * dcf, omega, smaps=self.smaps, norm="ortho")
        x = x0.clone()
        r = b - self.normal(x, omega, dcf)
        p = r.clone()
        rs = torch.vdot(r.flatten(), r.flatten()).real
        for _ in range(CG_ITERS):
            ap = self.normal(p, omega, dcf)
            alpha = rs / torch.vdot(p.flatten(), ap.flatten()).real
            x = x + alpha * p
            r = r - alpha * ap
            rs_new = torch.vdot(r.flatten(), r.flatten()).real
            p = r + (rs_new / rs) * p
            rs = rs_new
        return x, (rs / torch.vdot(b.flatten(), b.flatten()).real).sqrt().item()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    smaps = coil_maps()
    recon = CGSense(smaps)
    x = torch.zeros(1, 1, N, N, dtype=torch.complex64)
    tr = 2.6e-3
    start = time.perf_counter()
    for f in range(FRAMES):
        first = f * 13  # sliding window, 13 new spokes
        omega = trajectory(first, SPOKES)
        t = (first + SPOKES / 2) * tr
        truth = phantom(t)
        kdata = recon.nufft(truth, omega, smaps=smaps, norm="ortho")
        kdata = kdata + 0.002 * torch.randn_like(kdata)
        dcf = omega.norm(dim=0).clamp_min(math.pi / READ)
        dcf = (dcf / dcf.mean())[None, None]
        t0 = time.perf_counter()
        x, res = recon.solve(kdata, omega, dcf, x)
        scale = (x.conj() * truth).sum().real / x.abs().pow(2).sum()
        nrmse = ((scale * x - truth).abs().pow(2).sum() / truth.abs().pow(2).sum()).sqrt().item()
        print(
            f"frame {f:2d}  t={t * 1e3:6.1f} ms  residual {res:.2e}  nrmse {nrmse:.3f}  "
            f"recon {(time.perf_counter() - t0) * 1e3:7.1f} ms"
        )
    print(
        f"total {time.perf_counter() - start:.2f} s, "
        f"tongue mean intensity {x.abs()[0, 0, 66:88, 48:80].mean():.3f}"
    )


if __name__ == "__main__":
    main()
