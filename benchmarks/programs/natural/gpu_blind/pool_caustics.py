"""Animate caustics on a swimming-pool floor by forward photon splatting.

Every texel of the water surface sends one photon per colour band; photons refract at
the moving surface, hit the tiled floor, and are splatted bilinearly into a light map.
"""

import os
import time

import numpy as np
import torch
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
SURF = 64 if SMOKE else 2048  # photons per side
MAP = 48 if SMOKE else 1536  # light-map texels per side
FRAMES = 3 if SMOKE else 120
WAVES = 5 if SMOKE else 18
SIZE, DEPTH = 8.0, 1.6  # metres
IOR = (1.331, 1.334, 1.341)  # red, green, blue


def make_waves(rng):
    lam = np.exp(rng.uniform(np.log(0.18), np.log(2.2), WAVES))
    k = 2 * np.pi / lam
    th = rng.normal(0.6, 0.9, WAVES)
    amp = 0.0028 * lam**0.9
    om = np.sqrt(9.81 * k * np.tanh(k * DEPTH))
    ph = rng.uniform(0, 2 * np.pi, WAVES)
    t = lambda a: torch.tensor(a, dtype=torch.float32, device=DEV)
    return t(k * np.cos(th)), t(k * np.sin(th)), t(amp), t(om), t(ph)


def surface(xs, ys, waves, t):
    kx, ky, amp, om, ph = waves
    phase = (
        kx[:, None, None] * xs[None, None, :]
        + ky[:, None, None] * ys[None, :, None]
        + (ph - om * t)[:, None, None]
    )
    a = amp[:, None, None]
    h = (a * torch.sin(phase)).sum(0)
    c = a * torch.cos(phase)
    return h, (c * kx[:, None, None]).sum(0), (c * ky[:, None, None]).sum(0)


def refract(d, n, eta):
    cosi = -(d * n).sum(-1, keepdim=True)
    k = 1 - eta * eta * (1 - cosi * cosi)
    return eta * d + (eta * cosi - k.clamp_min(0).sqrt()) * n, cosi


def splat(img, u, v, e):
    u0, v0 = torch.floor(u), torch.floor(v)
    fu, fv = u - u0, v - v0
    iu, iv = u0.long(), v0.long()
    for du, dv, w in (
        (0, 0, (1 - fu) * (1 - fv)),
        (1, 0, fu * (1 - fv)),
        (0, 1, (1 - fu) * fv),
        (1, 1, fu * fv),
    ):
        cu, cv = iu + du, iv + dv
        ok = (cu >= 0) & (cu < MAP) & (cv >= 0) & (cv < MAP)
        idx = cv.clamp(0, MAP - 1) * MAP + cu.clamp(0, MAP - 1)
        img.index_add_(0, idx.reshape(-1), (w * e * ok).reshape(-1))
    return img


def light_map(xs, ys, waves, sun, t):
    h, hx, hy = surface(xs, ys, waves, t)
    n = F.normalize(torch.stack([-hx, -hy, torch.ones_like(h)], -1), dim=-1)
    pos_x = xs[None, :].expand_as(h)
    pos_y = ys[:, None].expand_as(h)
    bands = []
    for ior in IOR:
        d, cosi = refract(sun.expand_as(n), n, 1.0 / ior)
        r0 = ((ior - 1) / (ior + 1)) ** 2
        fresnel = 1 - (r0 + (1 - r0) * (1 - cosi.squeeze(-1)).clamp(0, 1) ** 5)
        s = (DEPTH + h) / (-d[..., 2]).clamp_min(0.05)
        u = (pos_x + s * d[..., 0]) / SIZE * MAP - 0.5
        v = (pos_y + s * d[..., 1]) / SIZE * MAP - 0.5
        img = torch.zeros(MAP * MAP, device=h.device)
        bands.append(splat(img, u, v, fresnel).view(MAP, MAP))
    return torch.stack(bands) * (MAP / SURF) ** 2


def shade(lm, floor):
    k = torch.tensor([0.25, 0.5, 0.25], device=lm.device)
    x = lm[:, None]
    x = F.conv2d(F.pad(x, (1, 1, 0, 0), mode="replicate"), k.view(1, 1, 1, 3))
    x = F.conv2d(F.pad(x, (0, 0, 1, 1), mode="replicate"), k.view(1, 1, 3, 1))[:, 0]
    absorb = torch.exp(-DEPTH * torch.tensor([0.35, 0.07, 0.02], device=lm.device))[:, None, None]
    rgb = floor * absorb * (0.25 + 1.1 * x)
    rgb = (rgb * (2.51 * rgb + 0.03)) / (rgb * (2.43 * rgb + 0.59) + 0.14)
    return (rgb.clamp(0, 1) ** (1 / 2.2) * 255).to(torch.uint8)


@torch.compile
def render(xs, ys, waves, sun, floor, t):
    lm = light_map(xs, ys, waves, sun, t)
    return shade(lm, floor), lm


def tiles():
    g = torch.arange(MAP, device=DEV) / MAP * SIZE
    line = (g % 0.25) < 0.012
    grout = line[None] | line[:, None]
    base = torch.tensor([0.62, 0.82, 0.90], device=DEV)[:, None, None].expand(3, MAP, MAP)
    return torch.where(grout[None], torch.full_like(base, 0.35), base)


def main():
    rng = np.random.default_rng(4)
    waves = make_waves(rng)
    margin = 1.0
    xs = torch.linspace(-margin, SIZE + margin, SURF, device=DEV)
    ys = xs.clone()
    sun = torch.tensor([0.28, 0.17, -0.94], device=DEV)
    sun = sun / sun.norm()
    floor = tiles()
    contrast, t0 = [], time.perf_counter()
    for f in range(FRAMES):
        frame, lm = render(xs, ys, waves, sun, floor, torch.tensor(f / 30.0, device=DEV))
        contrast.append(lm[1].std() / lm[1].mean())
        if f % 20 == 0:
            host = frame.cpu()
            print(
                f"frame {f:4d} mean rgb {[round(v, 1) for v in host.float().mean((1, 2)).tolist()]} "
                f"{(f + 1) / (time.perf_counter() - t0):7.2f} fps",
                flush=True,
            )
    c = torch.stack(contrast).cpu()
    assert torch.isfinite(c).all()
    print(
        f"{FRAMES} frames, {3 * SURF * SURF / 1e6:.1f} M photons each, "
        f"contrast mean {c.mean():.3f} min {c.min():.3f} max {c.max():.3f}"
    )


if __name__ == "__main__":
    main()
