"""Abelian sandpile: avalanche statistics for a bundle of independent piles.

Each round throws a handful of grains on every pile, relaxes all piles until stable and records how
many topplings the round caused and how far they spread. At the end the size histogram and the height
fractions are printed, the latter next to the infinite-lattice values of the BTW model.
"""

import time

import torch
import torch.nn.functional as F

PILES = 16
SIDE = 80
ROUNDS = 50
GRAINS = 4
SEED = 3
KNOWN_FRACTIONS = (0.0736, 0.1739, 0.3063, 0.4461)


@torch.compile
def relax(grid):
    """Topple until every site holds fewer than four grains. Returns grid, topplings per site, sweeps."""
    topplings = torch.zeros_like(grid)
    sweeps = 0
    while True:
        spill = grid >> 2
        if int(spill.sum()) == 0:
            break
        padded = F.pad(spill, (1, 1, 1, 1))
        received = padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]
        grid = grid - 4 * spill + received
        topplings = topplings + spill
        sweeps += 1
    return grid, topplings, sweeps


def throw(grid, grains, gen):
    """Drop grains on random sites of every pile."""
    p, s, _ = grid.shape
    site = torch.randint(s * s, (p, grains), generator=gen)
    flat = grid.view(p, -1)
    return flat.scatter_add(1, site, torch.ones_like(site, dtype=grid.dtype)).view(p, s, s)


def critical_start(gen):
    """Start near the critical state: mean height a little under 2.125."""
    probs = torch.tensor([0.08, 0.18, 0.31, 0.43])
    h = torch.multinomial(probs, PILES * SIDE * SIDE, replacement=True, generator=gen)
    return h.to(torch.int32).view(PILES, SIDE, SIDE)


class Ledger:
    """Sizes, areas and the running mean of lost grains."""

    def __init__(self):
        self.sizes, self.areas, self.lost = [], [], 0

    def add(self, before, after, topplings):
        self.sizes.append(topplings.sum((1, 2)))
        self.areas.append((topplings > 0).sum((1, 2)))
        self.lost += int(before.sum() - after.sum())

    def table(self):
        sizes = torch.cat(self.sizes).double()
        areas = torch.cat(self.areas).double()
        edges = [0, 1, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 10**9]
        print("  size range        rounds   mean area")
        for lo, hi in zip(edges[:-1], edges[1:]):
            sel = (sizes >= lo) & (sizes < hi)
            n = int(sel.sum())
            mean_area = areas[sel].mean().item() if n else 0.0
            print(f"  {lo:6d} - {hi if hi < 10**9 else '...':>6}   {n:6d}   {mean_area:9.1f}")
        print(f"  largest {sizes.max().item():.0f} topplings, {self.lost} grains left over the edge")


def main():
    gen = torch.Generator().manual_seed(SEED)
    grid = critical_start(gen)
    t0 = time.perf_counter()
    grid, topplings, sweeps = relax(throw(grid, 20, gen))
    print(
        f"settling: {sweeps} sweeps, {int(topplings.sum())} topplings, "
        f"mean height {grid.float().mean():.4f}, {time.perf_counter() - t0:.2f} s"
    )

    ledger = Ledger()
    total_sweeps = 0
    t0 = time.perf_counter()
    for r in range(ROUNDS):
        loaded = throw(grid, GRAINS, gen)
        grid, topplings, sweeps = relax(loaded)
        ledger.add(loaded, grid, topplings)
        total_sweeps += sweeps
        if (r + 1) % 10 == 0:
            dt = time.perf_counter() - t0
            print(
                f"round {r + 1:3d}: {total_sweeps} sweeps, {dt:.2f} s "
                f"({total_sweeps * grid.numel() / dt / 1e6:.1f} M site updates/s)"
            )
    ledger.table()

    frac = [(grid == k).float().mean().item() for k in range(4)]
    print("height   measured   infinite lattice")
    for k in range(4):
        print(f"{k:6d}   {frac[k]:8.4f}   {KNOWN_FRACTIONS[k]:8.4f}")
    assert int(grid.max()) < 4 and int(grid.min()) >= 0


if __name__ == "__main__":
    main()
