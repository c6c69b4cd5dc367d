"""Velocity analysis for ground-penetrating radar by Stolt (f-k) migration.

A B-scan of buried pipes gives hyperbolas. We migrate it with a range of soil velocities,
score how well the image focuses, and keep the best velocity for each survey line.
"""

import math

import torch
import torch.nn.functional as F

NX, NT = 96, 384  # traces, samples
DX, DT = 0.02, 0.2e-9  # m, s
F0 = 400e6


def ricker(t, f0):
    a = (math.pi * f0 * t) ** 2
    return (1 - 2 * a) * torch.exp(-a)


def make_bscan(v, n_pipes, gen):
    """Point diffractors in a homogeneous soil + direct wave + ringing + noise."""
    x = torch.arange(NX) * DX
    t = torch.arange(NT) * DT
    data = torch.zeros(NX, NT)
    for _ in range(n_pipes):
        xp = (0.15 + 0.7 * torch.rand(1, generator=gen)) * NX * DX
        zp = 0.5 + 1.6 * torch.rand(1, generator=gen)
        r = torch.sqrt((x - xp) ** 2 + zp**2)
        tau = 2 * r / v
        data += ricker(t[None, :] - tau[:, None], F0) * (zp / r)[:, None]
    data += 3.0 * ricker(t - 6e-9, F0)  # direct wave
    data += 0.4 * torch.exp(-t / 30e-9)  # wow
    data += 0.05 * torch.randn(NX, NT, generator=gen)
    return data


def dewow(d, win=41):
    pad = win // 2
    mean = F.avg_pool1d(F.pad(d, (pad, pad), mode="replicate"), win, stride=1)
    return d - mean


def preprocess(d):
    d = dewow(d)
    d = d - d.mean(dim=1, keepdim=True)  # background removal over the traces
    t = torch.arange(NT) * DT
    gain = (t / t[-1]).clamp(min=0.05) ** 0.8
    d = d * gain
    taper = torch.hann_window(2 * 16, periodic=False)
    w = torch.ones(NX)
    w[:16] = taper[:16]
    w[-16:] = taper[16:]
    return d * w[:, None]


def spectrum(d):
    """2-D spectrum of the zero-padded section: (line, kx, w), w >= 0 only."""
    d = F.pad(d, (0, NT, 0, NX))
    s = torch.fft.rfft(d, dim=-1)
    return torch.fft.fft(s, dim=-2)


@torch.compile
def stolt_migrate(spec, kx, omega, v):
    """Map omega -> kz on the exploding-reflector dispersion relation, then go back to (x, z)."""
    c = v / 2
    dw = omega[1] - omega[0]
    kz = omega / c
    w_new = c * torch.sqrt(kz[None, :] ** 2 + kx[:, None] ** 2)
    pos = w_new / dw
    i0 = pos.floor().long()
    valid = i0 < omega.numel() - 2
    i0 = torch.where(valid, i0, torch.zeros_like(i0))
    frac = pos - i0
    idx = i0[None].expand(spec.shape[0], -1, -1)
    lo = torch.gather(spec, 2, idx)
    hi = torch.gather(spec, 2, idx + 1)
    img = lo * (1 - frac) + hi * frac
    obliquity = kz[None, :] / torch.sqrt(kz[None, :] ** 2 + kx[:, None] ** 2 + 1e-6)
    img = img * (obliquity * valid)
    img = torch.fft.ifft(img, dim=-2)
    img = torch.fft.irfft(img, dim=-1)
    return img[:, :NX, :NT]


@torch.compile
def focus_score(img):
    """Varimax norm and the entropy of the energy."""
    e = img[:, :, 60:].square()
    varimax = e.square().sum((1, 2)) * e[0].numel() / e.sum((1, 2)).square()
    p = e / e.sum((1, 2), keepdim=True)
    entropy = -(p * torch.log(p + 1e-12)).sum((1, 2))
    return varimax, entropy


def main():
    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(5)
    true_v = [0.08e9, 0.10e9, 0.12e9]
    lines = torch.stack([make_bscan(v, 6, gen) for v in true_v])
    lines = torch.stack([preprocess(d) for d in lines])
    spec = spectrum(lines)
    kx = 2 * math.pi * torch.fft.fftfreq(2 * NX, DX)
    omega = 2 * math.pi * torch.fft.rfftfreq(2 * NT, DT)

    velocities = [0.06e9 + 0.001e9 * i for i in range(90)]
    vmax, ent = [], []
    with torch.no_grad():
        for v in velocities:
            img = stolt_migrate(spec, kx, omega, v)
            a, b = focus_score(img)
            vmax.append(a)
            ent.append(b)
    vmax = torch.stack(vmax)
    ent = torch.stack(ent)

    for i, v in enumerate(true_v):
        k1 = int(vmax[:, i].argmax())
        k2 = int(ent[:, i].argmin())
        # parabola through the three values round the maximum
        if 0 < k1 < len(velocities) - 1:
            y0, y1, y2 = vmax[k1 - 1 : k1 + 2, i].tolist()
            off = 0.5 * (y0 - y2) / (y0 - 2 * y1 + y2)
        else:
            off = 0.0
        best = velocities[k1] + off * 0.001e9
        eps_r = (0.2998e9 / best) ** 2
        print(
            f"line {i}: true {v / 1e9:.3f} m/ns  varimax {best / 1e9:.4f}  "
            f"entropy {velocities[k2] / 1e9:.3f}  eps_r {eps_r:.2f}"
        )


if __name__ == "__main__":
    main()
