"""Fit parametric equalisers to measured loudspeaker / room responses.

Every seat gets a cascade of RBJ peaking filters plus two shelves; centre
frequencies, gains and Q factors are tuned by gradient descent on the dB error
over a log-spaced grid with a psychoacoustic weighting.
"""

import math
import time

import torch
from torch import nn

torch.set_num_threads(2)

FS = 48_000.0


def log_grid(n, lo=20.0, hi=20_000.0):
    return torch.logspace(math.log10(lo), math.log10(hi), n)


def peaking(freq, gain_db, q):
    """RBJ cookbook peaking section, returns (b, a) with trailing dim 3."""
    amp = 10.0 ** (gain_db / 40.0)
    w0 = 2.0 * math.pi * freq / FS
    alpha = torch.sin(w0) / (2.0 * q)
    cos = torch.cos(w0)
    b = torch.stack((1 + alpha * amp, -2 * cos, 1 - alpha * amp), -1)
    a = torch.stack((1 + alpha / amp, -2 * cos, 1 - alpha / amp), -1)
    return b, a


def shelf(freq, gain_db, high):
    amp = 10.0 ** (gain_db / 40.0)
    w0 = 2.0 * math.pi * freq / FS
    cos = torch.cos(w0) * (-1.0 if high else 1.0)
    sq = 2.0 * amp.sqrt() * torch.sin(w0) * math.sqrt(0.5)
    sign = -1.0 if high else 1.0
    b = torch.stack(
        (
            amp * ((amp + 1) - (amp - 1) * cos + sq),
            sign * 2 * amp * ((amp - 1) - (amp + 1) * cos),
            amp * ((amp + 1) - (amp - 1) * cos - sq),
        ),
        -1,
    )
    a = torch.stack(
        (
            (amp + 1) + (amp - 1) * cos + sq,
            sign * -2 * ((amp - 1) + (amp + 1) * cos),
            (amp + 1) + (amp - 1) * cos - sq,
        ),
        -1,
    )
    return b, a


def response_db(b, a, w):
    """Magnitude response in dB of a cascade; b, a are (seats, sections, 3)."""
    z1 = torch.exp(-1j * w)
    z2 = z1 * z1
    b, a = b.unsqueeze(-2), a.unsqueeze(-2)
    num = b[..., 0] + b[..., 1] * z1 + b[..., 2] * z2
    den = a[..., 0] + a[..., 1] * z1 + a[..., 2] * z2
    h = num / den
    return 20.0 * torch.log10(h.abs() + 1e-7).sum(dim=1)


class RoomEQ(nn.Module):
    def __init__(self, seats, peaks, grid):
        super().__init__()
        centres = log_grid(peaks, 45.0, 12_000.0).log()
        self.log_f = nn.Parameter(centres.repeat(seats, 1))
        self.gain = nn.Parameter(torch.zeros(seats, peaks))
        self.log_q = nn.Parameter(torch.full((seats, peaks), 0.3))
        self.shelf_gain = nn.Parameter(torch.zeros(seats, 2))
        self.register_buffer("w", 2.0 * math.pi * grid / FS)
        self.register_buffer("shelf_f", torch.tensor([110.0, 7000.0]))

    def sections(self):
        pb, pa = peaking(self.log_f.exp(), 15.0 * torch.tanh(self.gain / 15.0), self.log_q.exp())
        lb, la = shelf(self.shelf_f[:1], self.shelf_gain[:, :1], high=False)
        hb, ha = shelf(self.shelf_f[1:], self.shelf_gain[:, 1:], high=True)
        return torch.cat((pb, lb, hb), 1), torch.cat((pa, la, ha), 1)

    def forward(self, measured, weight):
        b, a = self.sections()
        err = measured + response_db(b, a, self.w)
        err = err - (err * weight).sum(1, keepdim=True)
        fit = (weight * torch.sqrt(err * err + 0.25)).sum(1).mean()
        effort = 1e-3 * self.gain.abs().mean() + 1e-3 * self.log_q.pow(2).mean()
        return fit + effort, err.detach()


def measure(seats, grid, seed=5):
    """Room modes, a bass rise and a treble roll-off, with ripple."""
    g = torch.Generator().manual_seed(seed)
    lf = grid.log()
    out = torch.zeros(seats, len(grid))
    for _ in range(9):
        c = math.log(40) + (math.log(9000) - math.log(40)) * torch.rand(seats, 1, generator=g)
        width = 0.08 + 0.3 * torch.rand(seats, 1, generator=g)
        amp = 5.0 * torch.randn(seats, 1, generator=g)
        out += amp * torch.exp(-0.5 * ((lf - c) / width) ** 2)
    out += 3.0 * torch.sigmoid((math.log(120) - lf) * 4) - 4.0 * torch.sigmoid((lf - math.log(8000)) * 4)
    return out + 0.3 * torch.randn(seats, len(grid), generator=g)


def main():
    torch.manual_seed(0)
    grid = log_grid(1024)
    measured = measure(16, grid)
    weight = torch.sigmoid((grid.log() - math.log(35)) * 3) * torch.sigmoid((math.log(14e3) - grid.log()) * 3)
    weight = weight / weight.sum()

    model = RoomEQ(16, 10, grid)
    loss_fn = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.08)

    before = (measured - (measured * weight).sum(1, keepdim=True)).abs().mul(weight).sum(1).mean()
    times = []
    for step in range(75):
        t0 = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        loss, err = loss_fn(measured, weight)
        loss.backward()
        opt.step()
        if step >= 5:
            times.append(time.perf_counter() - t0)
        if step % 25 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    after = (err.abs() * weight).sum(1).mean()
    print(f"weighted deviation {before:.3f} dB -> {after:.3f} dB")
    assert after < 0.6 * before
    print(f"time per step: {1e3 * sum(times) / len(times):.2f} ms")


if __name__ == "__main__":
    main()
