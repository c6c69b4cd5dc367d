"""Picture of a vintage radar PPI tube with a two-layer (P7) phosphor, for a museum exhibit.

The antenna turns once in six seconds; sixty times a second the beam writes one degree of the
polar picture.  The phosphor has a prompt blue layer that is struck by the electrons and a slow
yellow-green layer that is pumped by the light of the first one.  Every video frame decays both
layers, adds what the beam has written, spreads a part of the light within the thick face
plate (halation) and is tone-mapped to RGB for the projector.
"""

import math
import time

import torch
import torch.nn.functional as F

SIZE = 544
FPS = 60.0
SECONDS_PER_TURN = 6.0
FRAMES = 480
RANGE_BINS = 640
SUBRAYS = 24

TAU_BLUE = 0.030  # s
TAU_YELLOW = 1.9  # s


class RadarScene:
    """Land clutter, rain and a few aircraft, as echo strength over range for a bearing."""

    def __init__(self, seed=4):
        self.gen = torch.Generator().manual_seed(seed)
        ang = torch.linspace(0, 2 * math.pi, 721)[:-1]
        coast = 0.55 + 0.14 * torch.sin(3 * ang + 0.4) + 0.06 * torch.sin(11 * ang)
        r = torch.linspace(0, 1, RANGE_BINS)
        texture = torch.rand(720, RANGE_BINS, generator=self.gen)
        self.land = ((r[None] > coast[:, None]) & (texture > 0.45)).float() * torch.exp(-2.0 * r)[None]
        rain = torch.exp(-(((ang[:, None] - 4.1) / 0.25) ** 2) - ((r[None] - 0.35) / 0.09) ** 2)
        self.land += 0.6 * rain * torch.rand(720, RANGE_BINS, generator=self.gen)
        self.ac_r = 0.15 + 0.75 * torch.rand(14, generator=self.gen)
        self.ac_a = 2 * math.pi * torch.rand(14, generator=self.gen)
        self.ac_dr = 0.0004 * torch.randn(14, generator=self.gen)
        self.r = r

    def echo(self, bearing):
        row = self.land[int(bearing / (2 * math.pi) * 720) % 720].clone()
        noise = 0.05 * torch.rand(RANGE_BINS, generator=self.gen)
        d = torch.remainder(bearing - self.ac_a + math.pi, 2 * math.pi) - math.pi
        amp = torch.exp(-((d / 0.02) ** 2))
        blips = (amp[:, None] * torch.exp(-(((self.r[None] - self.ac_r[:, None]) / 0.006) ** 2))).sum(0)
        self.ac_r = (self.ac_r + self.ac_dr).clamp(0.05, 0.98)
        rings = (torch.remainder(self.r * 5.0, 1.0) < 0.012).float() * 0.3
        return 0.03 + row + noise + 1.5 * blips + rings


def beam_image(echo, bearing, width):
    """Writes one sector with the deflected beam: current per pixel."""
    rays = bearing + (torch.arange(SUBRAYS) / SUBRAYS) * width
    rad = torch.linspace(1.0, SIZE / 2 - 4, RANGE_BINS)
    x = SIZE / 2 + rad[None] * torch.sin(rays)[:, None]
    y = SIZE / 2 - rad[None] * torch.cos(rays)[:, None]
    idx = y.long() * SIZE + x.long()
    current = echo[None].expand(SUBRAYS, -1) / SUBRAYS * 3.0
    return (
        torch.bincount(idx.flatten(), weights=current.flatten().float(), minlength=SIZE * SIZE)
        .float()
        .view(SIZE, SIZE)
    )


def halation_transfer(radius=38.0):
    """Transfer function of the light that is reflected within the face plate: ring plus wide skirt."""
    d = torch.minimum(torch.arange(SIZE), SIZE - torch.arange(SIZE)).float()
    r = torch.sqrt(d[:, None] ** 2 + d[None] ** 2)
    psf = torch.exp(-(((r - radius) / 9.0) ** 2)) + 0.8 / (1.0 + (r / 14.0) ** 2) ** 1.5
    return torch.fft.rfft2(psf / psf.sum())


@torch.compile
def phosphor_frame(blue, yellow, beam, glass, keep_blue: float, keep_yellow: float, gain: float):
    # electrons excite the blue layer; it saturates
    blue = blue * keep_blue + beam * gain / (1.0 + 0.5 * blue)
    # blue light pumps the yellow layer
    pumped = 0.11 * blue
    yellow = yellow * keep_yellow + pumped * (1.0 - yellow).clamp(min=0.0)
    # colours of both layers through the amber filter
    r = 0.22 * blue + 0.85 * yellow
    g = 0.35 * blue + 0.95 * yellow
    b = 0.90 * blue + 0.18 * yellow
    lum = 0.21 * r + 0.72 * g + 0.07 * b
    # halation: light that comes back from the outer face of the glass
    halo = torch.fft.irfft2(torch.fft.rfft2(lum) * glass, s=lum.shape).clamp(min=0.0)
    r = r + 0.07 * halo
    g = g + 0.09 * halo
    b = b + 0.05 * halo
    lum = lum + 0.08 * halo
    scale = (1.0 + lum / 6.0) / (1.0 + lum)
    rgb = torch.stack([r * scale, g * scale, b * scale])
    return blue, yellow, rgb.clamp(0.0, 1.0).sqrt()


@torch.no_grad()
def main():
    scene = RadarScene()
    blue = torch.zeros(SIZE, SIZE)
    yellow = torch.zeros(SIZE, SIZE)
    keep_blue = math.exp(-1.0 / (FPS * TAU_BLUE))
    keep_yellow = math.exp(-1.0 / (FPS * TAU_YELLOW))
    width = 2 * math.pi / (FPS * SECONDS_PER_TURN)
    glass = halation_transfer()
    thumbs = []
    t0 = time.perf_counter()
    since = t0
    for frame in range(FRAMES):
        bearing = (frame * width) % (2 * math.pi)
        beam = beam_image(scene.echo(bearing), bearing, width)
        blue, yellow, rgb = phosphor_frame(blue, yellow, beam, glass, keep_blue, keep_yellow, 1.4)
        if (frame + 1) % 80 == 0:
            now = time.perf_counter()
            print(
                f"frame {frame + 1:5d}  {80 / (now - since):6.1f} fps  "
                f"mean level {rgb.mean().item():.4f}  max yellow {yellow.max().item():.3f}"
            )
            since = now
            thumbs.append(F.avg_pool2d(rgb[None], 8)[0])
    assert torch.isfinite(rgb).all()
    contact_sheet = torch.cat(thumbs, dim=2)
    print(f"contact sheet {tuple(contact_sheet.shape)}, {FRAMES} frames in {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
