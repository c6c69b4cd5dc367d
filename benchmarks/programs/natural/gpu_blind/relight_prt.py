"""Interactive relighting of a still with precomputed radiance transfer.

For each pixel and colour channel an offline pass stored how much each spherical-harmonic coefficient of the
environment contributes. Relighting a frame is one product with the (rotating) environment, then the display
transform. An orbit of the light is played and frame times are reported.
"""

import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
DTYPE = torch.float32 if SMOKE else torch.float16
H, W = (36, 64) if SMOKE else (1080, 1920)
BANDS = 4 if SMOKE else 14
FRAMES = 40 if SMOKE else 7000
K = BANDS * BANDS


def synthetic_transport():
    """Diffuse-like transport: the coefficients fall off with the band."""
    gen = torch.Generator(device=DEV).manual_seed(0)
    t = torch.empty(H * W * 3, K, device=DEV, dtype=DTYPE)
    falloff = torch.cat([torch.full((2 * l + 1,), 0.5 / (1 + l) ** 2) for l in range(BANDS)]).to(DEV, DTYPE)
    rows = max(1, t.shape[0] // 16)
    for chunk in t.split(rows):
        chunk.normal_(generator=gen).mul_(falloff)
    t[:, 0] = t[:, 0].abs() + 0.4  # ambient visibility
    return t


class Environment:
    """A sky with a sun, as SH coefficients; the rotation about the vertical axis mixes (l, m) with (l, -m)."""

    def __init__(self, sun_height=0.6):
        self.l = torch.cat([torch.full((2 * l + 1,), float(l)) for l in range(BANDS)])
        self.m = torch.cat([torch.arange(-l, l + 1).float() for l in range(BANDS)])
        zonal = torch.exp(-0.15 * self.l * (self.l + 1) * (1 - sun_height))
        self.base = zonal * torch.cos(self.m * 0.3) * 0.6
        self.base[0] = 1.5
        self.mirror = (self.l * self.l + self.l - self.m).long()

    def rotated(self, angle):
        c, s = torch.cos(self.m * angle), torch.sin(self.m * angle)
        return c * self.base + s * self.base[self.mirror]


@torch.compile(mode="reduce-overhead")
def relight(transport, light, exposure, white):
    radiance = (transport @ light).float().clamp_min(0) * exposure
    # extended Reinhard, sRGB curve, 8 bits
    mapped = (radiance * (1 + radiance / white.square()) / (1 + radiance)).clamp(0, 1)
    srgb = torch.where(
        mapped <= 0.0031308, 12.92 * mapped, 1.055 * mapped.clamp_min(1e-6).pow(1 / 2.4) - 0.055
    )
    return (srgb * 255 + 0.5).to(torch.uint8)


class Viewer:
    def __init__(self):
        self.transport = synthetic_transport()
        self.env = Environment()
        self.exposure = torch.tensor(1.0, device=DEV)
        self.white = torch.tensor(4.0, device=DEV)

    def lights(self, n):
        return torch.stack([self.env.rotated(2 * math.pi * i / n) for i in range(n)]).to(DEV, DTYPE)

    @torch.inference_mode()
    def frame(self, light):
        return relight(self.transport, light, self.exposure, self.white)

    def auto_expose(self, frame):
        mean = frame.float().mean() / 255
        self.exposure = (self.exposure * (0.45 / mean.clamp(0.05, 1)).clamp(0.8, 1.25)).clamp(0.05, 20)


def main():
    torch.manual_seed(0)
    viewer = Viewer()
    orbit = viewer.lights(min(FRAMES, 720))
    size = viewer.transport.numel() * viewer.transport.element_size() / 2**30
    print(f"{W}x{H}, {K} coefficients, transport {size:.2f} GiB")

    checksum = torch.zeros((), device=DEV, dtype=torch.int64)
    start = last = time.perf_counter()
    for i in range(FRAMES):
        img = viewer.frame(orbit[i % len(orbit)])
        if i % 60 == 0:
            viewer.auto_expose(img)
            checksum += img[::997].sum()
        if (i + 1) % max(1, FRAMES // 7) == 0:
            mean = img.float().mean().item()
            now = time.perf_counter()
            print(
                f"frame {i + 1:5d}  mean level {mean:6.1f}  {1e3 * (now - last) / max(1, FRAMES // 7):.3f} ms per frame"
            )
            last = now
    print(f"done in {time.perf_counter() - start:.2f} s, checksum {checksum.item()}")
    assert img.shape[0] == H * W * 3


if __name__ == "__main__":
    main()
