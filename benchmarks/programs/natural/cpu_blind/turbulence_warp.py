"""
Long-path imaging simulator (horizontal optics range, 2.5 km over warm ground).

A pristine multispectral scene is warped by a time-evolving angle-of-arrival
(tilt) field and attenuated per band by scintillation, the way the sensor
would see it.  The output feeds a super-resolution pipeline.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BANDS = 24  # spectral bands of the pushbroom camera
SIZE = 224  # pixels
SCENES = 2
FRAMES = 24


def synthetic_scene(n, bands, size, gen):
    """Roofs, roads and fields: random boxes with band-dependent albedo."""
    img = 0.2 + 0.02 * torch.randn(n, bands, size, size, generator=gen)
    for i in range(n):
        for _ in range(40):
            y, x = torch.randint(0, size - 40, (2,), generator=gen).tolist()
            h, w = torch.randint(6, 40, (2,), generator=gen).tolist()
            spectrum = torch.rand(bands, 1, 1, generator=gen)
            img[i, :, y : y + h, x : x + w] = spectrum
    return img.clamp_(0, 1)


class TiltScreen:
    """Frozen-flow phase screen; gives the tilt map on a coarse lattice."""

    def __init__(self, nodes, wind=(0.9, 0.3), gen=None):
        k = torch.fft.fftfreq(nodes)[:, None] ** 2 + torch.fft.fftfreq(nodes)[None] ** 2
        k[0, 0] = 1.0
        amp = k ** (-11 / 12)  # Kolmogorov
        amp[0, 0] = 0.0
        spec = torch.randn(nodes, nodes, generator=gen) + 1j * torch.randn(nodes, nodes, generator=gen)
        self.spec = spec * amp
        self.kx = torch.fft.fftfreq(nodes)[None, :]
        self.ky = torch.fft.fftfreq(nodes)[:, None]
        self.wind = wind

    def tilt(self, t):
        shift = torch.exp(-2j * math.pi * (self.kx * self.wind[0] + self.ky * self.wind[1]) * t)
        phase = self.spec * shift
        gx = torch.fft.ifft2(2j * math.pi * self.kx * phase).real
        gy = torch.fft.ifft2(2j * math.pi * self.ky * phase).real
        g = torch.stack([gx, gy])
        return g / g.std()


class TurbulentSensor(nn.Module):
    def __init__(self, size, bands, strength_px=1.7):
        super().__init__()
        ax = torch.linspace(-1, 1, size)
        gy, gx = torch.meshgrid(ax, ax, indexing="ij")
        self.register_buffer("base", torch.stack([gx, gy], dim=-1))
        self.scale = 2.0 * strength_px / size
        wavelengths = torch.linspace(0.45, 0.95, bands)
        # blue bands scintillate a bit more than NIR
        self.register_buffer("rytov", 0.12 * (0.55 / wavelengths) ** (7 / 6))
        self.gain = nn.Parameter(torch.ones(bands), requires_grad=False)

    def forward(self, scene, tilt, log_amp):
        n, c, h, w = scene.shape
        disp = F.interpolate(tilt[None], size=(h, w), mode="bilinear", align_corners=True)
        grid = self.base + self.scale * disp[0].permute(1, 2, 0)
        grid = grid.unsqueeze(0).expand(n, h, w, 2)
        seen = F.grid_sample(scene, grid, mode="bilinear", padding_mode="border", align_corners=True)
        scint = torch.exp(self.rytov * log_amp - 0.5 * self.rytov**2)
        return seen * (self.gain * scint)[None, :, None, None]


def main():
    gen = torch.Generator().manual_seed(11)
    scene = synthetic_scene(SCENES, BANDS, SIZE, gen)
    screen = TiltScreen(32, gen=gen)
    sensor = torch.compile(TurbulentSensor(SIZE, BANDS).eval(), fullgraph=True)

    mean = torch.zeros_like(scene)
    with torch.no_grad():
        for f in range(FRAMES):
            tilt = screen.tilt(0.5 * f)
            la = torch.randn((), generator=gen)
            t0 = time.perf_counter()
            frame = sensor(scene, tilt, la)
            dt = time.perf_counter() - t0
            mean += frame / FRAMES
            print(f"frame {f:2d}  {dt * 1e3:8.2f} ms")
    blur = (mean - scene).pow(2).mean().sqrt().item()
    print(f"rms difference long exposure vs pristine: {blur:.5f}")


if __name__ == "__main__":
    main()
