"""Process sidescan sonar survey lines into a seabed mosaic.

Raw 16-bit pings arrive in blocks of both channels. Each block is gain-corrected for spreading and absorption, the
first bottom return is picked and smoothed, slant range is turned into ground range, the beam pattern is flattened with a
running table of grazing angles, speckle is taken out with a Lee filter, and the block is stretched to 8 bits.
The sonar data are simulated: a rolling towfish altitude over sand ripples with rocks and their shadows.
"""

import math

import torch
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
GPU = device == "cuda"
PINGS, SAMPLES, GROUND = (1024, 4096, 3072) if GPU else (96, 512, 384)
LINES, BLOCKS = (6, 60) if GPU else (2, 12)
RANGE = 75.0  # metres of slant range
DR = RANGE / SAMPLES
ALPHA = 0.06  # dB per metre
BINS = 180


def simulate_block(line, block, gen):
    """int16 [2, PINGS, SAMPLES]"""
    t = torch.arange(PINGS, device=device) + block * PINGS
    alt = 8 + 1.5 * torch.sin(2 * math.pi * t / 900 + line) + 0.2 * torch.sin(2 * math.pi * t / 61)
    r = (torch.arange(SAMPLES, device=device) + 1) * DR
    y = torch.sqrt((r[None] ** 2 - alt[:, None] ** 2).clamp(min=0.01))
    side = torch.tensor([-1.0, 1.0], device=device).view(2, 1, 1)
    ripple = torch.sin(side * y * 2.1 + t[:, None] * 0.02) * torch.sin(t[:, None] * 0.004 + y * 0.3)
    rocks = F.interpolate(
        (torch.rand(1, 2, PINGS // 16, SAMPLES // 32, generator=gen, device=device) > 0.985).float(),
        size=(PINGS, SAMPLES),
    )[0]
    shadow = torch.roll(rocks, SAMPLES // 24, -1)
    level = 26 + 5 * ripple + 14 * rocks - 16 * shadow + 12 * torch.log10((alt[:, None] / r).clamp(max=1))
    level = level - 2 * ALPHA * r - 30 * torch.log10(r) + 62
    amp = 10 ** (level / 20) * (r[None] > alt[:, None]) + 3.0
    speckle = torch.empty(2, PINGS, SAMPLES, device=device).exponential_(generator=gen).sqrt()
    return (amp * speckle).clamp(0, 32767).to(torch.int16)


def bottom_track(db, guess):
    """Sample number of the first strong return of each ping."""
    both = db.mean(0)
    smooth = F.avg_pool1d(both.unsqueeze(1), 17, stride=1, padding=8).squeeze(1)
    noise = (
        smooth[:, 20:60].mean(1, keepdim=True) if SAMPLES > 1024 else smooth[:, 4:12].mean(1, keepdim=True)
    )
    idx = torch.arange(both.shape[-1], device=db.device)
    gate = (idx > 0.4 * guess) & (idx < 1.8 * guess)
    first = ((smooth > noise + 9) & gate).to(torch.int32).argmax(-1)
    first = torch.where(first == 0, guess.round().long(), first).float()
    padded = F.pad(first[None, None], (10, 10), mode="replicate")[0, 0]
    track = padded.unfold(0, 21, 1).median(-1).values
    return F.avg_pool1d(F.pad(track[None, None], (4, 4), mode="replicate"), 9, stride=1)[0, 0]


def to_ground(db, height):
    y = (torch.arange(GROUND, device=db.device) + 0.5) * (SAMPLES / GROUND)
    slant = torch.sqrt(y[None] ** 2 + height[:, None] ** 2).clamp(max=SAMPLES - 1.001)
    lo = slant.floor().long()
    w = slant - lo
    lo = lo.expand(2, -1, -1)
    ground = db.gather(2, lo) * (1 - w) + db.gather(2, lo + 1) * w
    graze = torch.atan2(height[:, None].expand_as(slant), y.expand_as(slant))
    return ground, graze


def flatten_beam(img, graze, table, weight):
    bins = (graze / (math.pi / 2) * BINS).long().clamp(0, BINS - 1).expand(2, -1, -1)
    flat = bins.reshape(2, -1)
    total = torch.zeros(2, BINS, device=img.device).scatter_add_(1, flat, img.reshape(2, -1))
    count = torch.zeros(2, BINS, device=img.device).scatter_add_(1, flat, torch.ones_like(img).reshape(2, -1))
    keep = 0.97
    table = keep * table + total
    weight = keep * weight + count
    curve = table / weight.clamp(min=1)
    curve = F.avg_pool1d(curve.unsqueeze(0), 5, stride=1, padding=2, count_include_pad=False)[0]
    centre = (table.sum(1) / weight.sum(1).clamp(min=1)).view(2, 1, 1)
    return img - curve.gather(1, flat).view_as(img) + centre, table, weight


def lee(img, size=7):
    lin = torch.exp(img * (math.log(10) / 10))
    pad = size // 2
    x = F.pad(lin.unsqueeze(1), (pad, pad, pad, pad), mode="reflect")
    mean = F.avg_pool2d(x, size, stride=1)
    var = (F.avg_pool2d(x * x, size, stride=1) - mean * mean).clamp(min=0)
    ratio = var / (mean * mean + 1e-9)
    k = ((ratio - 0.27) / (ratio * 1.27 + 1e-9)).clamp(0, 1)
    out = mean + k * (lin.unsqueeze(1) - mean)
    return 10 * torch.log10(out.squeeze(1) + 1e-9)


def process(raw, guess, table, weight):
    r = (torch.arange(SAMPLES, device=raw.device) + 1) * DR
    db = 20 * torch.log10(raw.float() + 1) + 30 * torch.log10(r) + 2 * ALPHA * r
    height = bottom_track(20 * torch.log10(raw.float() + 1), guess)
    ground, graze = to_ground(db, height)
    flat, table, weight = flatten_beam(ground, graze, table, weight)
    clean = lee(flat)
    lo, hi = torch.quantile(clean.flatten()[::41], torch.tensor([0.01, 0.99], device=raw.device))
    grey = ((clean - lo) / (hi - lo) * 255).clamp(0, 255).to(torch.uint8)
    strip = torch.cat([grey[0].flip(-1), grey[1]], -1)
    return strip, height, table, weight


class Mosaic:
    def __init__(self, step=8):
        self.step, self.rows = step, []

    def add(self, strip):
        small = F.avg_pool2d(strip.float()[None, None], self.step)[0, 0]
        self.rows.append(small.cpu())

    def finish(self):
        return torch.cat(self.rows)


@torch.no_grad()
def main():
    gen = torch.Generator(device=device).manual_seed(8)
    run = torch.compile(process)
    for line in range(LINES):
        table = torch.zeros(2, BINS, device=device)
        weight = torch.zeros(2, BINS, device=device)
        guess = torch.tensor(8 / DR, device=device)
        mosaic, heights = Mosaic(), []
        for block in range(BLOCKS):
            raw = simulate_block(line, block, gen)
            strip, height, table, weight = run(raw, guess, table, weight)
            guess = height[-50:].mean()
            mosaic.add(strip)
            heights.append(height)
        h = torch.cat(heights) * DR
        m = mosaic.finish()
        print(
            f"line {line}: altitude {h.mean():.2f} m ({h.min():.2f} to {h.max():.2f}), mosaic {tuple(m.shape)}, "
            f"grey {m.mean():.1f} +- {m.std():.1f}"
        )


if __name__ == "__main__":
    main()
