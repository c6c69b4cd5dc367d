"""Phase-only SLM holograms for an optical-tweezer array (weighted Gerchberg-Saxton).

For every frame of a trap-rearrangement movie we compute a hologram whose far
field has equal-brightness spots at the requested trap sites.
"""

import math

import torch

H, W = 768, 1024  # SLM pixels
ITERS = 25
FRAMES = 8
GRID = 10  # 10 x 10 traps


def gaussian_beam(waist=0.38):
    y = torch.linspace(-1, 1, H)[:, None] * H / W
    x = torch.linspace(-1, 1, W)[None, :]
    amp = torch.exp(-(x**2 + y**2) / waist**2)
    return amp / amp.norm()


def trap_sites(frame):
    """Regular grid which is sheared a bit more on every frame."""
    g = torch.arange(GRID, dtype=torch.float32) - (GRID - 1) / 2
    yy, xx = torch.meshgrid(g, g, indexing="ij")
    shear = 0.08 * frame
    rows = (H / 2 + 60 + 22 * yy).round().long()
    cols = (W / 2 + 90 + 24 * xx + 24 * shear * yy).round().long()
    return rows.flatten(), cols.flatten()


@torch.compile
def wgs_iteration(phase, beam, target, weights):
    """One weighted-GS pass; returns the new phase, new weights and the far field."""
    near = torch.polar(beam.expand_as(phase).contiguous(), phase)
    far = torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(near), norm="ortho"))

    mag = far.abs()
    on = target > 0
    mean_spot = (mag * target).sum() / target.sum()
    weights = torch.where(on, weights * mean_spot / (mag + 1e-9), weights)
    weights = torch.where(on, weights / ((weights * target).sum() / target.sum()), weights)

    wanted = weights * target
    far_new = wanted * far / (mag + 1e-9)
    back = torch.fft.fftshift(torch.fft.ifft2(torch.fft.ifftshift(far_new), norm="ortho"))
    return torch.angle(back), weights, mag


def quantise(phase, levels=256):
    step = 2 * math.pi / levels
    return torch.round(phase / step) * step


def evaluate(phase, beam, rows, cols):
    field = torch.polar(beam, quantise(phase))
    far = torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(field), norm="ortho"))
    spots = far[rows, cols].abs() ** 2
    eff = float(spots.sum() / (far.abs() ** 2).sum())
    uni = 1.0 - float((spots.max() - spots.min()) / (spots.max() + spots.min()))
    return eff, uni


@torch.no_grad()
def main():
    torch.manual_seed(3)
    beam = gaussian_beam()
    phase = (torch.rand(H, W) - 0.5) * 2 * math.pi
    for frame in range(FRAMES):
        rows, cols = trap_sites(frame)
        target = torch.zeros(H, W)
        target[rows, cols] = 1.0
        weights = torch.ones(H, W)
        # warm start from the previous frame's phase
        for _ in range(ITERS):
            phase, weights, mag = wgs_iteration(phase, beam, target, weights)
        eff, uni = evaluate(phase, beam, rows, cols)
        worst = int(mag[rows, cols].argmin())
        print(f"frame {frame}: efficiency {eff:.3f}  uniformity {uni:.3f}  dimmest trap #{worst}")


if __name__ == "__main__":
    main()
