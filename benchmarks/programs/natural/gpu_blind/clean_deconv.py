"""Hogbom CLEAN of a simulated radio-interferometer snapshot.

A field of point sources is observed through a sparse uv coverage; the dirty
image is the sky convolved with the dirty beam (PSF).  CLEAN repeatedly finds
the brightest residual pixel and subtracts a scaled, shifted beam.
"""

import math
import time

import torch

DEVICE = "cuda"


class Interferometer:
    """Earth-rotation synthesis with a Y-shaped array, gridded uv plane."""

    def __init__(self, npix, n_arm=9, n_hour=240, seed=11):
        g = torch.Generator().manual_seed(seed)
        arms = []
        for k in range(3):
            r = 40.0 * (torch.arange(1, n_arm + 1).float() ** 1.5)
            r = r + 5.0 * torch.rand(n_arm, generator=g)
            a = 2.0 * math.pi * k / 3.0 + 0.1
            arms.append(torch.stack([r * math.cos(a), r * math.sin(a)], dim=1))
        ant = torch.cat(arms)  # metres
        i, j = torch.triu_indices(ant.shape[0], ant.shape[0], 1)
        base = ant[i] - ant[j]
        ha = torch.linspace(-0.9, 0.9, n_hour)
        sin_d = math.sin(0.7)
        u = base[:, 0, None] * ha.cos() - base[:, 1, None] * ha.sin()
        v = sin_d * (base[:, 0, None] * ha.sin() + base[:, 1, None] * ha.cos())
        cell = 2.2 * max(u.abs().max().item(), v.abs().max().item()) / npix
        iu = torch.round(u / cell).long() % npix
        iv = torch.round(v / cell).long() % npix
        cov = torch.zeros(npix, npix)
        cov[iv.reshape(-1), iu.reshape(-1)] = 1.0
        cov[(-iv.reshape(-1)) % npix, (-iu.reshape(-1)) % npix] = 1.0
        self.npix = npix
        self.coverage = cov.to(DEVICE)
        beam = torch.fft.ifft2(self.coverage).real
        self.norm = beam[0, 0].item()
        self.psf = torch.fft.fftshift(beam / self.norm).contiguous()

    def observe(self, sky, noise):
        vis = torch.fft.fft2(sky) * self.coverage
        dirty = torch.fft.ifft2(vis).real / self.norm
        return dirty + noise * torch.randn_like(dirty)


class HogbomClean:
    def __init__(self, psf, gain=0.15, minor=8):
        self.psf = psf
        self.npix = psf.shape[0]
        self.gain = gain
        self.minor = minor
        self.rows = torch.arange(self.npix, device=psf.device).view(-1, 1)
        self.cols = torch.arange(self.npix, device=psf.device).view(1, -1)

    @torch.compile
    def minor_cycles(self, residual):
        n = self.npix
        where, flux = [], []
        for _ in range(self.minor):
            peak = residual.abs().reshape(-1).argmax().reshape(1)
            amp = self.gain * residual.reshape(-1).gather(0, peak)
            py = peak // n
            px = peak % n
            # beam re-centred on the peak, periodic at the field edge
            beam = self.psf[(self.rows - py + n // 2) % n, (self.cols - px + n // 2) % n]
            residual = residual - amp * beam
            where.append(peak)
            flux.append(amp)
        return residual, torch.cat(where), torch.cat(flux)


@torch.no_grad()
def main():
    torch.manual_seed(5)
    npix = 2048
    array = Interferometer(npix)
    sky = torch.zeros(npix, npix, device=DEVICE)
    ys = torch.randint(100, npix - 100, (60,), device=DEVICE)
    xs = torch.randint(100, npix - 100, (60,), device=DEVICE)
    sky[ys, xs] = 0.2 + torch.rand(60, device=DEVICE) ** 4 * 5.0
    residual = array.observe(sky, noise=2e-3)

    cleaner = HogbomClean(array.psf)
    model = torch.zeros(npix * npix, device=DEVICE)
    rms0 = residual.std().item()

    for major in range(26):
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        residual, where, flux = cleaner.minor_cycles(residual)
        torch.cuda.synchronize()
        ms = (time.perf_counter() - t0) * 1e3
        model.index_add_(0, where, flux)
        peak = residual.abs().max().item()
        print(f"batch {major:2d}: {ms:8.3f} ms   peak residual {peak:.4f} Jy")

    print(f"residual rms {rms0:.5f} -> {residual.std().item():.5f}")
    print(
        f"cleaned flux {model.sum().item():.3f} of {sky.sum().item():.3f} Jy "
        f"in {int((model != 0).sum())} pixels"
    )


if __name__ == "__main__":
    main()
