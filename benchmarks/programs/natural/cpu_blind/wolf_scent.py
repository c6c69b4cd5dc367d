"""Scent-mark territories of wolf packs.

Every pack keeps a scent map of the study area.  Marks fade from day to day
(weather, snow cover) and are renewed around the places that the pack visited
that day.  A cell counts to a pack's territory where its own scent is stronger
than that of all other packs together.  After a settling period the packs'
territory sizes are followed for some months.
"""

import math
import time

import torch

PACKS = 20
GRID = 360  # cells of 500 m
DAYS_PER_CALL = 5
KEEP = 0.55  # share of a mark's strength left after a day
REACH = 4.0  # cells, spread of a day's marks round the trail
SETTLING_DAYS = 40


class Packs:
    """Den sites on a jittered lattice, and a daily wander round each den."""

    def __init__(self, seed=3):
        g = torch.Generator().manual_seed(seed)
        cols = math.ceil(math.sqrt(PACKS))
        spacing = GRID / cols
        idx = torch.arange(PACKS)
        lattice = torch.stack([idx % cols, idx // cols], 1).float()
        self.den = (lattice + 0.5) * spacing
        self.den += 8.0 * torch.randn(PACKS, 2, generator=g)
        self.offset = torch.zeros(PACKS, 2)
        self.rate = 0.6 + 0.8 * torch.rand(PACKS, generator=g)  # pack size
        self.g = g

    def walk(self, days):
        """Centres of activity, (days, packs, 2)."""
        out = []
        for _ in range(days):
            kick = torch.randn(PACKS, 2, generator=self.g)
            self.offset = 0.8 * self.offset + 2.5 * kick
            out.append(self.den + self.offset)
        return torch.stack(out)


class ScentMap:
    def __init__(self, packs):
        self.packs = packs
        axis = torch.arange(GRID, dtype=torch.float32) + 0.5
        self.gx = axis.view(1, 1, GRID)
        self.gy = axis.view(1, GRID, 1)
        # during last season's dispersal the packs roamed the whole area; what
        # is left of those marks is about four months old
        g = torch.Generator().manual_seed(17)
        age = 110.0 + 30.0 * torch.rand(PACKS, GRID, GRID, generator=g)
        self.scent = 0.1 * KEEP**age

    @torch.compile
    def run_days(self, centres):
        scent = self.scent
        for day in range(DAYS_PER_CALL):
            cx = centres[day, :, 0].view(PACKS, 1, 1)
            cy = centres[day, :, 1].view(PACKS, 1, 1)
            d2 = (self.gx - cx) ** 2 + (self.gy - cy) ** 2
            fresh = torch.exp(d2 * (-0.5 / REACH**2))
            scent = KEEP * scent + self.packs.rate.view(PACKS, 1, 1) * fresh
        self.scent.copy_(scent)
        foreign = scent.sum(0, keepdim=True) - scent
        held = (scent > foreign).float().sum((1, 2))
        return held


@torch.no_grad()
def main():
    packs = Packs()
    world = ScentMap(packs)

    t0 = time.perf_counter()
    world.run_days(packs.walk(DAYS_PER_CALL))
    print(f"first call {time.perf_counter() - t0:.2f} s")

    # let the territories settle before anything is recorded
    for _ in range(SETTLING_DAYS // DAYS_PER_CALL):
        world.run_days(packs.walk(DAYS_PER_CALL))

    history = []
    for call in range(30):
        centres = packs.walk(DAYS_PER_CALL)
        t0 = time.perf_counter()
        held = world.run_days(centres)
        ms = (time.perf_counter() - t0) * 1e3
        history.append(held)
        print(
            f"day {SETTLING_DAYS + (call + 1) * DAYS_PER_CALL:4d}   {ms:7.2f} ms   "
            f"largest territory {held.max().item() * 0.25:8.1f} km2"
        )

    area = torch.stack(history) * 0.25
    print(f"mean territory {area.mean():.1f} km2, spread between packs {area.mean(0).std():.1f} km2")


if __name__ == "__main__":
    main()
