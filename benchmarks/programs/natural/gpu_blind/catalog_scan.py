"""Exact first-stage retrieval over a product catalogue.

All product vectors are kept on the GPU in half precision, grouped in blocks
of near-duplicates (variants of one listing: colours, sizes).  Queries arrive
in groups of 16; a listing scores as its best variant, and stale listings are
held down by a freshness prior.
"""

import time

import torch
import torch.nn.functional as F

DEVICE = "cuda"
VARIANTS = 40


class Catalogue:
    def __init__(self, listings, dim, seed=17):
        g = torch.Generator(device=DEVICE).manual_seed(seed)
        self.listings = listings
        self.dim = dim
        self.vectors = torch.empty(listings * VARIANTS, dim, dtype=torch.float16, device=DEVICE)
        step = 5000
        for lo in range(0, listings, step):
            n = min(step, listings - lo)
            centre = torch.randn(n, 1, dim, device=DEVICE, generator=g)
            spread = 0.35 * torch.randn(n, VARIANTS, dim, device=DEVICE, generator=g)
            block = F.normalize(centre + spread, dim=-1).half()
            self.vectors[lo * VARIANTS : (lo + n) * VARIANTS] = block.view(-1, dim)
        age_days = torch.empty(listings, device=DEVICE).exponential_(1 / 120.0, generator=g)
        self.freshness = (-0.0004 * age_days).half()
        self.in_stock = torch.rand(listings, device=DEVICE, generator=g) > 0.07


def first_stage(queries, vectors, freshness, in_stock, k: int):
    """Top listings for a group of queries."""
    q = F.normalize(queries, dim=-1).half()
    sim = q @ vectors.t()
    best = sim.view(q.shape[0], -1, VARIANTS).amax(dim=-1)
    score = best.float() + freshness.float()
    score = score.masked_fill(~in_stock, -1e4)
    value, index = score.topk(k, dim=-1)
    return value, index


scan = torch.compile(first_stage, mode="reduce-overhead")


class QueryStream:
    """Users look for a listing they have seen, with words of their own."""

    def __init__(self, catalogue, group, seed=23):
        self.catalogue = catalogue
        self.group = group
        self.gen = torch.Generator(device=DEVICE).manual_seed(seed)

    def next(self):
        cat = self.catalogue
        want = torch.randint(cat.listings, (self.group,), device=DEVICE, generator=self.gen)
        seen = cat.vectors[want * VARIANTS].float()
        noise = torch.randn(self.group, cat.dim, device=DEVICE, generator=self.gen)
        return want, seen + 0.06 * noise


@torch.inference_mode()
def main():
    cat = Catalogue(listings=80_000, dim=192)
    stream = QueryStream(cat, group=16)
    gib = cat.vectors.numel() * 2 / 2**30
    print(f"{cat.listings} listings, {cat.vectors.shape[0]} vectors, {gib:.2f} GiB")

    for _ in range(4):
        _, q = stream.next()
        scan(q, cat.vectors, cat.freshness, cat.in_stock, 100)
    torch.cuda.synchronize()

    found, stocked, total = 0, 0, 0.0
    steps = 36
    for step in range(steps):
        want, q = stream.next()
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        value, index = scan(q, cat.vectors, cat.freshness, cat.in_stock, 100)
        torch.cuda.synchronize()
        ms = (time.perf_counter() - t0) * 1e3
        total += ms
        found += int((index == want[:, None]).any(dim=1).sum())
        stocked += int(cat.in_stock[want].sum())
        if step % 4 == 0:
            print(f"group {step:2d}: {ms:7.3f} ms  best score {value[:, 0].mean().item():.3f}")

    print(f"mean {total / steps:.3f} ms per group of 16")
    print(f"recall@100 {found / max(stocked, 1):.3f} of listings in stock")


if __name__ == "__main__":
    main()
