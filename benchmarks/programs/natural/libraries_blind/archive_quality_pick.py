"""Choose a compression quality for every picture of a photo archive.

For each picture the lowest quality of a block-transform codec is sought whose MS-SSIM against the
original stays above a target; a bisection runs on a batch of pictures of the same size at once.
"""

import math

import torch
import torch.nn.functional as F
from pytorch_msssim import ms_ssim, ssim

TARGET = 0.982
SIZES = [(352, 480), (480, 352), (352, 480), (480, 352)]
PER_GROUP = 2
STEPS = 7

LUMA = torch.tensor(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    dtype=torch.float32,
)


def dct_matrix(n=8):
    k = torch.arange(n, dtype=torch.float32)[:, None]
    i = torch.arange(n, dtype=torch.float32)[None, :]
    m = torch.cos(math.pi * (2 * i + 1) * k / (2 * n)) * math.sqrt(2.0 / n)
    m[0] = 1.0 / math.sqrt(n)
    return m


class BlockCodec:
    def __init__(self):
        self.basis = dct_matrix()
        self.table = LUMA

    def tables_for(self, quality):
        scale = torch.where(quality < 50, 5000.0 / quality, 200.0 - 2.0 * quality)
        table = (self.table[None] * scale[:, None, None] + 50.0) / 100.0
        return table.floor().clamp(1, 255)

    def roundtrip(self, images, quality):
        b, c, h, w = images.shape
        x = images.float() - 128.0
        blocks = x.reshape(b, c, h // 8, 8, w // 8, 8).permute(0, 1, 2, 4, 3, 5)
        coeff = self.basis @ blocks @ self.basis.T
        q = self.tables_for(quality)[:, None, None, None]
        levels = torch.round(coeff / q)
        nonzero = (levels != 0).flatten(1).sum(1)
        rec = self.basis.T @ (levels * q) @ self.basis
        rec = rec.permute(0, 1, 2, 4, 3, 5).reshape(b, c, h, w)
        return (rec + 128.0).round().clamp(0, 255), nonzero


codec = BlockCodec()


@torch.compile
def probe(images, quality):
    decoded, nonzero = codec.roundtrip(images, quality)
    original = images.float()
    structural = ms_ssim(original, decoded, data_range=255, size_average=False)
    return structural, nonzero


def final_report(images, quality):
    decoded, nonzero = codec.roundtrip(images, quality)
    original = images.float()
    mse = (original - decoded).square().flatten(1).mean(1)
    psnr = 10 * torch.log10(255.0**2 / mse.clamp(min=1e-6))
    return ssim(original, decoded, data_range=255, size_average=False), psnr, nonzero


def make_pictures(n, h, w, gen):
    base = torch.rand(n, 3, h // 32 + 2, w // 32 + 2, generator=gen)
    pic = F.interpolate(base, size=(h, w), mode="bicubic", align_corners=False)
    for octave, amount in ((8, 0.25), (3, 0.15), (1, 0.06)):
        grain = torch.randn(n, 1, h // octave + 1, w // octave + 1, generator=gen)
        grain = F.interpolate(grain, size=(h, w), mode="bilinear", align_corners=False)
        strength = torch.rand(n, 1, 1, 1, generator=gen)
        pic = pic + amount * strength * grain
    return (pic.clamp(0, 1) * 255).to(torch.uint8)


def pick_quality(images):
    n = images.shape[0]
    lo = torch.full((n,), 5.0)
    hi = torch.full((n,), 98.0)
    for _ in range(STEPS):
        mid = ((lo + hi) / 2).round()
        score, _ = probe(images, mid)
        good = score >= TARGET
        hi = torch.where(good, mid, hi)
        lo = torch.where(good, lo, mid)
        if bool(((hi - lo) <= 1).all()):
            break
    return hi


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(2024)
    rows = []
    for g, (h, w) in enumerate(SIZES):
        images = make_pictures(PER_GROUP, h, w, gen)
        quality = pick_quality(images)
        s, p, nz = final_report(images, quality)
        for i in range(PER_GROUP):
            rows.append(
                (
                    f"box{g:02d}/{i:03d}",
                    h,
                    w,
                    int(quality[i]),
                    s[i].item(),
                    p[i].item(),
                    nz[i].item() / (h * w * 3),
                )
            )
    for name, h, w, q, s, p, d in rows[::3]:
        print(f"{name}  {w}x{h}  q={q:3d}  ssim={s:.4f}  psnr={p:.2f} dB  kept={100 * d:.1f}%")
    mean_q = sum(r[3] for r in rows) / len(rows)
    kept = sum(r[6] for r in rows) / len(rows)
    print(f"{len(rows)} pictures, mean quality {mean_q:.1f}, coefficients kept {100 * kept:.1f}%")


if __name__ == "__main__":
    main()
