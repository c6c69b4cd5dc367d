"""Night mode of a door-bell camera: spray retinex on sRGB frames, run on the two cores of the device.

Each pixel is compared in log luminance with a fixed spray of neighbours at growing radii; the clipped differences are
averaged (McCann/Frankle, without the reset), mixed with the frame and given back as 8 bit.
"""

import math
import time

import torch
import torch.nn.functional as F

RADIUS = 40


def make_spray(points=22, seed=4):
    """Offsets on a golden spiral with weights that fall with the distance."""
    offsets, weights = [], []
    for i in range(1, points + 1):
        r = RADIUS * (i / points) ** 1.4
        phi = i * math.pi * (3 - math.sqrt(5)) + seed
        dy, dx = round(r * math.sin(phi)), round(r * math.cos(phi))
        if (dy, dx) != (0, 0):
            offsets.append((dy, dx))
            weights.append(1.0 / (1.0 + r / 12))
    total = sum(weights)
    return offsets, [w / total for w in weights]


SPRAY, WEIGHTS = make_spray()


def srgb_to_linear(v):
    return torch.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(v):
    return torch.where(v <= 0.0031308, v * 12.92, 1.055 * v.clamp(min=1e-6) ** (1 / 2.4) - 0.055)


@torch.compile
def retinex(frame, gain, strength):
    """frame uint8 (1, 3, H, W) -> uint8 (1, 3, H, W)."""
    h, w = frame.shape[-2:]
    rgb = F.pad(frame.float() / 255, (RADIUS,) * 4, mode="replicate")
    log_light = torch.log(srgb_to_linear(rgb) + 2e-3)
    centre = log_light[..., RADIUS : RADIUS + h, RADIUS : RADIUS + w]
    acc = torch.zeros_like(centre)
    for (dy, dx), weight in zip(SPRAY, WEIGHTS):
        other = log_light[..., RADIUS + dy : RADIUS + dy + h, RADIUS + dx : RADIUS + dx + w]
        acc = acc + weight * (centre - other).clamp(-1.8, 1.8)
    lifted = torch.exp((1 - strength) * centre + strength * (acc - 1.2)) * gain
    out = linear_to_srgb(lifted.clamp(0, 1))
    return (out * 255 + 0.5).clamp(0, 255).to(torch.uint8)


class NightScene:
    """Dark street with a lamp and a walking person, plus shot noise."""

    def __init__(self, h=480, w=640, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
        self.yy, self.xx = yy, xx
        wall = 0.5 + 0.3 * torch.sin(xx / 9) * torch.sin(yy / 7)
        lamp = 0.9 * torch.exp(-((yy - 90) ** 2 + (xx - 500) ** 2) / (2 * 60**2))
        colour = torch.tensor([1.0, 0.8, 0.55])[:, None, None]
        self.background = (0.02 + lamp) * wall * colour
        self.h, self.w = h, w

    def frame(self, t):
        body = torch.exp(-(((self.yy - 300) / 80) ** 4 + ((self.xx - 40 - 6 * t) / 25) ** 4))
        light = self.background * (1 - 0.7 * body)
        noisy = light + torch.sqrt(light.clamp(min=1e-4)) * 0.02 * torch.randn(
            3, self.h, self.w, generator=self.g
        )
        return (linear_to_srgb(noisy.clamp(0, 1)) * 255).clamp(0, 255).to(torch.uint8)[None]


def main():
    torch.manual_seed(0)
    scene = NightScene()
    gain = torch.tensor(2.0)
    frames = 60
    spent = 0.0
    with torch.inference_mode():
        for t in range(frames):
            raw = scene.frame(t)
            t0 = time.perf_counter()
            out = retinex(raw, gain, torch.tensor(0.65))
            spent += time.perf_counter() - t0
            mean = out.float().mean() / 255
            gain = (gain * (0.42 / mean.clamp(min=0.05)) ** 0.25).clamp(0.5, 8)  # slow exposure loop
            if (t + 1) % 15 == 0:
                print(
                    f"frame {t + 1:3d} raw mean {raw.float().mean():6.2f} out mean {mean * 255:6.2f} gain {gain:.2f}"
                    f" {(t + 1) / spent:.1f} frames/s"
                )
    assert out.dtype == torch.uint8 and out.shape == raw.shape


if __name__ == "__main__":
    main()
