"""Cache VAE latents of scanned herbarium sheets, so that a latent diffusion model can be trained on them later.

Sheets come in a few aspect-ratio buckets; every batch is drawn from one bucket, as bucketed training loaders do.
The VAE is diffusers' AutoencoderKL (a small configuration, random weights here).
"""

import random
import time

import torch
from diffusers import AutoencoderKL

BUCKETS = [(192, 128), (160, 160), (208, 128), (128, 192)]
BATCH = 4
N_BATCHES = 44


def make_vae():
    torch.manual_seed(3)
    vae = AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(32, 48, 64),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=192,
    )
    return vae.eval().requires_grad_(False)


def paint_sheet(h, w, gen):
    """A pale sheet with a branching brown-green specimen and a label in the corner."""
    yy, xx = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
    sheet = torch.ones(3, h, w) * torch.tensor([0.93, 0.90, 0.82])[:, None, None]
    sheet += 0.02 * torch.randn(3, h, w, generator=gen)
    for _ in range(5):
        x0, slope, bend = (torch.rand(3, generator=gen) - 0.5).tolist()
        centre = 0.5 + 0.2 * x0 + 0.5 * slope * (1 - yy) + 0.3 * bend * (1 - yy) ** 2
        stem = torch.exp(-(((xx - centre) / 0.015) ** 2))
        leaf = torch.exp(-(((xx - centre) / 0.06) ** 2)) * (torch.sin(40 * yy + 9 * x0) > 0.5)
        mask = (stem + 0.7 * leaf).clamp(0, 1)
        colour = torch.tensor([0.35, 0.38, 0.18])[:, None, None]
        sheet = sheet * (1 - mask) + colour * mask
    sheet[:, int(0.85 * h) :, int(0.65 * w) :] = 0.97
    return sheet.clamp(0, 1)


class BucketedSheets:
    def __init__(self, seed=0):
        gen = torch.Generator().manual_seed(seed)
        self.rng = random.Random(seed)
        self.pool = {b: torch.stack([paint_sheet(*b, gen) for _ in range(8)]) for b in BUCKETS}

    def __iter__(self):
        for _ in range(N_BATCHES):
            bucket = self.rng.choice(BUCKETS)
            pick = torch.tensor(self.rng.sample(range(8), BATCH))
            images = self.pool[bucket][pick]
            if self.rng.random() < 0.5:
                images = images.flip(-1)
            yield bucket, images


class LatentCache:
    def __init__(self, vae):
        self.vae = vae
        self.encode = torch.compile(vae.encode)
        self.store = {}
        self.total = torch.zeros(4, dtype=torch.float64)
        self.total_sq = torch.zeros(4, dtype=torch.float64)
        self.pixels = 0

    @torch.no_grad()
    def add(self, bucket, images):
        posterior = self.encode(images * 2 - 1).latent_dist
        latents = posterior.mode() * self.vae.config.scaling_factor
        self.store.setdefault(bucket, []).append(latents.half())
        flat = latents.double().permute(1, 0, 2, 3).reshape(4, -1)
        self.total += flat.sum(1)
        self.total_sq += (flat**2).sum(1)
        self.pixels += flat.shape[1]

    def statistics(self):
        mean = self.total / self.pixels
        return mean, (self.total_sq / self.pixels - mean**2).sqrt()


def main():
    vae = make_vae()
    sheets = BucketedSheets(seed=11)
    cache = LatentCache(vae)
    start = time.perf_counter()
    count = 0
    for bucket, images in sheets:
        cache.add(bucket, images)
        count += len(images)
    took = time.perf_counter() - start
    mean, std = cache.statistics()
    for bucket, parts in sorted(cache.store.items()):
        print(
            f"bucket {bucket[0]}x{bucket[1]}: {sum(len(p) for p in parts)} sheets, latent {tuple(parts[0].shape[1:])}"
        )
    print("channel mean", [round(v, 4) for v in mean.tolist()])
    print("channel std ", [round(v, 4) for v in std.tolist()])
    with torch.no_grad():
        lat = next(iter(cache.store.values()))[0].float() / vae.config.scaling_factor
        back = vae.decode(lat[:1]).sample
    print(f"decode check: shape {tuple(back.shape)}, finite {bool(torch.isfinite(back).all())}")
    print(f"{count} sheets in {took:.2f} s ({count / took:.1f} sheets/s)")


if __name__ == "__main__":
    main()
