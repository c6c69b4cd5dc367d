"""Flattening of microscope mosaics before stitching.

Tiles come as uint8 with an overlap margin, which is cropped; intensities are put on a perceptual-like scale, normalised
against local mean and contrast, sharpened and written back as uint8.
"""

import math
import time

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(2)

RADIUS = 5
TILE = 160 + 2 * RADIUS


def make_tiles(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:TILE, 0:TILE] / TILE
    tiles = []
    for _ in range(n):
        cx, cy = rng.uniform(0.2, 0.8, 2)
        shade = 0.35 + 0.6 * np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 0.25)
        img = np.zeros((TILE, TILE))
        for _ in range(60):
            px, py, r = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0.008, 0.03)
            img += rng.uniform(0.3, 1.0) * np.exp(-((xx - px) ** 2 + (yy - py) ** 2) / (2 * r * r))
        img = shade * (0.25 + 0.6 * np.clip(img, 0, 1)) + 0.02 * rng.standard_normal(img.shape)
        tiles.append((np.clip(img, 0, 1) * 255).astype(np.uint8))
    return torch.from_numpy(np.stack(tiles))


class TileFlattener:
    def __init__(self, radius=RADIUS, gamma=0.9, knee=0.02, strength=0.7):
        self.radius = radius
        self.gamma = gamma
        self.knee = knee
        self.strength = strength
        self.dark = 4.0

    def to_scale(self, tiles):
        lin = (tiles.float() - self.dark).clamp_min(0.0) / (255.0 - self.dark)
        toe = torch.log1p(lin / self.knee) / math.log1p(1.0 / self.knee)
        return torch.pow(toe, self.gamma)

    def neighbourhood(self, x):
        size = 2 * self.radius + 1
        return x.unfold(1, size, 1).unfold(2, size, 1)

    def flatten(self, tiles):
        r = self.radius
        tone = self.to_scale(tiles)
        win = self.neighbourhood(tone)
        mean = win.mean(dim=(-1, -2))
        contrast = (win - mean[..., None, None]).abs().mean(dim=(-1, -2))
        tone = tone[:, r:-r, r:-r]
        z = (tone - mean) / (contrast + 0.03)
        squashed = z / (1.0 + z.abs() / 3.0)
        blend = self.strength * (0.5 + 0.12 * squashed) + (1.0 - self.strength) * tone
        edges = blend - 0.25 * (
            torch.roll(blend, 1, -1)
            + torch.roll(blend, -1, -1)
            + torch.roll(blend, 1, -2)
            + torch.roll(blend, -1, -2)
        )
        sharp = (blend + 0.4 * edges).clamp(0.0, 1.0)
        return (sharp * 255.0 + 0.5).to(torch.uint8), mean.std(dim=(-1, -2))


def shading_ratio(tiles):
    coarse = F.avg_pool2d(tiles.float().unsqueeze(1), 64).flatten(1)
    return float((coarse.std(1) / coarse.mean(1)).mean())


def main():
    tiles = make_tiles(12, seed=2)
    job = TileFlattener()
    job.flatten = torch.compile(job.flatten)

    for i in range(3):
        job.flatten(tiles[i : i + 2].contiguous())

    times, outs = [], []
    for i in range(24):
        pick = tiles[(2 * i) % 12 : (2 * i) % 12 + 2].clone()
        t0 = time.perf_counter()
        out, shade = job.flatten(pick)
        times.append(time.perf_counter() - t0)
        if i < 6:
            outs.append(out)

    before, after = shading_ratio(tiles), shading_ratio(torch.cat(outs))
    print(
        f"shading {before:.3f} -> {after:.3f}, shade spread {shade.mean():.4f}, "
        f"mean level {torch.cat(outs).float().mean():.1f}"
    )
    assert after < 0.6 * before
    print(f"{1e3 * np.median(times):.2f} ms per pair of tiles")


if __name__ == "__main__":
    main()
