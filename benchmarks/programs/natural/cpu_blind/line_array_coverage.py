"""Aiming of a loudspeaker line array: splay angles that give even sound over the audience.

Each box of the hang is a circular piston (directivity 2 J1(x)/x with x = k a sin(theta)) with
its own delay; the pressure at each seat is the coherent sum over the boxes.  A stochastic
search with shrinking steps changes the splay angles; the objective is the evenness over seats
and third-octave bands plus a penalty for what hits the back wall and the roof.
"""

import math
import time

import torch
from torch import nn

C_SOUND = 343.2
BOXES = 12
ITERATIONS = 300


def third_octaves(lo=200.0, n=16):
    return lo * 2.0 ** (torch.arange(n) / 3.0)


def audience_grid(gen):
    """Stalls on a slight slope and a balcony, plus points where no sound is wanted."""
    n_stalls, n_balc, n_roof = 1700, 700, 400
    xs = torch.rand(n_stalls, generator=gen) * 46 + 6
    stalls = torch.stack([xs, (torch.rand(n_stalls, generator=gen) - 0.5) * 30, 1.2 + 0.04 * xs], 1)
    xb = torch.rand(n_balc, generator=gen) * 16 + 34
    balc = torch.stack([xb, (torch.rand(n_balc, generator=gen) - 0.5) * 30, 7.5 + 0.45 * (xb - 34)], 1)
    xr = torch.rand(n_roof, generator=gen) * 50 + 4
    roof = torch.stack([xr, (torch.rand(n_roof, generator=gen) - 0.5) * 30, torch.full((n_roof,), 17.0)], 1)
    wanted = torch.cat([torch.ones(n_stalls + n_balc), torch.zeros(n_roof)]).bool()
    return torch.cat([stalls, balc, roof]), wanted


class LineArray(nn.Module):
    def __init__(self, seats, wanted, freqs, radius=0.19, box_height=0.36, trim=11.0):
        super().__init__()
        self.register_buffer("seats", seats)
        self.register_buffer("wanted", wanted.float())
        self.register_buffer("k", 2 * math.pi * freqs / C_SOUND)
        self.register_buffer("air_loss", 1e-9 * freqs**2)  # neper per metre, rough
        self.radius = radius
        self.box_height = box_height
        self.trim = trim

    def geometry(self, splay):
        """Positions of the boxes and their axes from the angles between neighbours."""
        tilt = torch.cumsum(splay, 0)
        step_x = -self.box_height * torch.sin(tilt)
        step_z = -self.box_height * torch.cos(tilt)
        pos = torch.stack(
            [torch.cumsum(step_x, 0), torch.zeros_like(tilt), self.trim + torch.cumsum(step_z, 0)], 1
        )
        axis = torch.stack([torch.cos(tilt), torch.zeros_like(tilt), -torch.sin(tilt)], 1)
        return pos, axis

    def forward(self, splay, gain_db, delay):
        pos, axis = self.geometry(splay)
        diff = self.seats[:, None, :] - pos[None, :, :]  # P, S, 3
        r = diff.norm(dim=-1)
        cos_t = (diff * axis[None]).sum(-1) / r
        sin_t = (1.0 - cos_t * cos_t).clamp(min=1e-8).sqrt()
        x = self.k[None, None, :] * (self.radius * sin_t)[:, :, None]  # P, S, F
        directivity = 2.0 * torch.special.bessel_j1(x) / x.clamp(min=1e-4)
        behind = torch.where(cos_t < 0, 0.25, 1.0)[:, :, None]
        amp = 10 ** (gain_db / 20)
        level = amp[None, :, None] * behind * torch.exp(-self.air_loss * r[:, :, None]) / r[:, :, None]
        phase = self.k * (r + C_SOUND * delay)[:, :, None]
        p = level * directivity
        re = (p * torch.cos(phase)).sum(1)
        im = (p * torch.sin(phase)).sum(1)
        spl = 10 * torch.log10(re * re + im * im + 1e-12) + 114.0  # P, F
        w = self.wanted[:, None]
        mean = (spl * w).sum(0) / w.sum()
        spread = (((spl - mean) ** 2 * w).sum(0) / w.sum()).sqrt()
        spill = (torch.relu(spl - (mean - 14.0)) * (1 - w)).sum(0) / (1 - w).sum()
        return spread.mean() + 0.35 * spill.mean(), mean


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(21)
    seats, wanted = audience_grid(gen)
    freqs = third_octaves()
    array = LineArray(seats, wanted, freqs)
    array.compile()

    splay = torch.full((BOXES,), math.radians(2.0))
    splay[0] = math.radians(-2.0)
    gain = torch.zeros(BOXES)
    delay = torch.zeros(BOXES)
    best, mean = array(splay, gain, delay)
    best = best.item()
    print(f"start: objective {best:.3f} dB, level {mean.mean().item():.1f} dB")
    sigma, accepted = 1.0, 0
    t0 = time.perf_counter()
    for it in range(ITERATIONS):
        trial = (splay + sigma * math.radians(0.8) * torch.randn(BOXES, generator=gen)).clamp(
            math.radians(-4.0), math.radians(9.0)
        )
        trial_gain = (gain + 0.4 * sigma * torch.randn(BOXES, generator=gen)).clamp(-6.0, 0.0)
        trial_delay = (delay + 5e-5 * sigma * torch.randn(BOXES, generator=gen)).clamp(0.0, 1e-3)
        score, mean = array(trial, trial_gain, trial_delay)
        score = score.item()
        if score < best:
            best, splay, gain, delay = score, trial, trial_gain, trial_delay
            accepted += 1
            sigma = min(sigma * 1.25, 2.0)
        else:
            sigma = max(sigma * 0.96, 0.05)
        if (it + 1) % 40 == 0:
            print(
                f"iter {it + 1:4d}  best {best:.3f} dB  sigma {sigma:.2f}  accepted {accepted}  "
                f"{(time.perf_counter() - t0) / (it + 1) * 1e3:.1f} ms/iter"
            )
    print("splay (deg):", " ".join(f"{math.degrees(a):.1f}" for a in splay.tolist()))
    print(f"bands: {', '.join(f'{v:.1f}' for v in mean.tolist())}")


if __name__ == "__main__":
    main()
