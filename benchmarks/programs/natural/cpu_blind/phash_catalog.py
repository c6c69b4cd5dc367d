"""Near-duplicate lookup for a product photo catalogue: 64-bit perceptual hashes and a brute-force Hamming scan."""

import math
import time

import torch

torch.manual_seed(3)

CATALOG = 64_000
HASH_CHUNK = 500
QUERY_BATCH = 16
N_BATCHES = 60
TOPK = 5


def dct_matrix(n):
    k = torch.arange(n).float()[:, None]
    x = torch.arange(n).float()[None]
    m = torch.cos(math.pi / n * (x + 0.5) * k) * math.sqrt(2.0 / n)
    m[0] /= math.sqrt(2.0)
    return m


DCT = dct_matrix(32)[:8]
BIT_VALUES = torch.ones(64, dtype=torch.int64) << torch.arange(64)

M1 = 0x5555555555555555
M2 = 0x3333333333333333
M4 = 0x0F0F0F0F0F0F0F0F
H01 = 0x0101010101010101


def popcount64(x):
    """SWAR population count of signed int64 words (shifts are arithmetic, so always mask afterwards)."""
    x = x - ((x >> 1) & M1)
    x = (x & M2) + ((x >> 2) & M2)
    x = (x + (x >> 4)) & M4
    return ((x * H01) >> 56) & 0x7F


@torch.compile
def perceptual_hash(rgb):
    """(n, 3, 32, 32) float in 0..1 -> (n,) int64."""
    luma = 0.299 * rgb[:, 0] + 0.587 * rgb[:, 1] + 0.114 * rgb[:, 2]
    luma = luma.clamp(0, 1) ** (1 / 1.1)
    coef = (DCT @ luma @ DCT.T).flatten(1)
    med = coef[:, 1:].median(dim=1, keepdim=True).values
    return ((coef > med).to(torch.int64) * BIT_VALUES).sum(1)


@torch.compile
def nearest(codes, category, query, query_category):
    """Hamming distance to each catalogue code, a small penalty for another category, best TOPK."""
    dist = popcount64(query[:, None] ^ codes[None, :])
    other = category[None, :] != query_category[:, None]
    score = dist.to(torch.float32) + 1.5 * other
    near = (dist <= 10).sum(1)
    best = torch.topk(score, TOPK, dim=1, largest=False)
    return best.values, best.indices, near


class PhotoIndex:
    def __init__(self):
        self.codes = []
        self.category = []

    def add(self, images, category):
        self.codes.append(perceptual_hash(images))
        self.category.append(category)

    def freeze(self):
        self.codes = torch.cat(self.codes)
        self.category = torch.cat(self.category)

    def lookup(self, images, category):
        return nearest(self.codes, self.category, perceptual_hash(images), category)


def photos(seed, n):
    """Smooth random pictures: a coarse field scaled up, with a little texture."""
    g = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 6, 6, generator=g)
    img = torch.nn.functional.interpolate(coarse, size=(32, 32), mode="bilinear", align_corners=False)
    return (img + 0.02 * torch.randn(n, 3, 32, 32, generator=g)).clamp(0, 1), torch.randint(
        0, 40, (n,), generator=g
    )


def main():
    index = PhotoIndex()
    t0 = time.perf_counter()
    for c in range(CATALOG // HASH_CHUNK):
        index.add(*photos(c, HASH_CHUNK))
    index.freeze()
    print(
        f"indexed {len(index.codes)} photos, {index.codes.unique().numel()} distinct hashes, "
        f"{time.perf_counter() - t0:.2f} s"
    )

    g = torch.Generator().manual_seed(77)
    hits = 0
    near_total = 0
    t0 = time.perf_counter()
    for b in range(N_BATCHES):
        chunk = int(torch.randint(0, CATALOG // HASH_CHUNK, (1,), generator=g))
        imgs, cats = photos(chunk, HASH_CHUNK)
        pick = torch.randint(0, HASH_CHUNK, (QUERY_BATCH,), generator=g)
        q = imgs[pick]
        # re-encoded upload: gain, offset, noise
        q = (q * 0.92 + 0.04 + 0.015 * torch.randn(q.shape, generator=g)).clamp(0, 1)
        _, idx, near = index.lookup(q, cats[pick])
        hits += (idx == (chunk * HASH_CHUNK + pick)[:, None]).any(1).sum().item()
        near_total += near.sum().item()
    n = N_BATCHES * QUERY_BATCH
    print(
        f"recall@{TOPK} {hits / n:.3f}, mean near-duplicates within 10 bits {near_total / n:.2f}, "
        f"{(time.perf_counter() - t0) / N_BATCHES * 1e3:.1f} ms per batch"
    )


if __name__ == "__main__":
    main()
