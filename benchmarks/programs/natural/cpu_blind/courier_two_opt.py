"""Nightly improvement of courier tours.

The dispatcher hands over a batch of tours (one per courier, same number of
stops after padding with depot copies). Best-improvement 2-opt moves and
or-opt moves (relocation of a single stop) alternate for all tours at once;
tours in a local optimum get a double-bridge kick (iterated local search).
"""

import time

import torch

COURIERS, STOPS = 48, 140
ROUNDS = 260
DETOUR = 1.27


def city(gen):
    """Stops cluster around shopping streets; distance is between street grid and crow flight."""
    centres = 20 * torch.rand(COURIERS, 6, 2, generator=gen)
    which = torch.randint(0, 6, (COURIERS, STOPS), generator=gen)
    xy = torch.gather(centres, 1, which[..., None].expand(-1, -1, 2))
    xy = xy + 1.1 * torch.randn(COURIERS, STOPS, 2, generator=gen)
    street = (xy[:, :, None] - xy[:, None]).abs().sum(-1)
    crow = torch.cdist(xy, xy)
    return 0.5 * (street + DETOUR * crow)


def nearest_neighbour_tours(dist):
    b = torch.arange(COURIERS)
    open_ = torch.ones(COURIERS, STOPS, dtype=torch.bool)
    here = torch.zeros(COURIERS, dtype=torch.long)
    tour = [here]
    open_[b, here] = False
    for _ in range(STOPS - 1):
        here = dist[b, here].masked_fill(~open_, float("inf")).argmin(1)
        open_[b, here] = False
        tour.append(here)
    return torch.stack(tour, 1)


def tour_length(dist, tour):
    b = torch.arange(len(tour))[:, None]
    return dist[b, tour, tour.roll(-1, 1)].sum(1)


def ordered_distances(dist, tour):
    """dist with rows and columns in visiting order"""
    n = tour.shape[1]
    rows = dist.gather(1, tour[:, :, None].expand(-1, -1, n))
    return rows.gather(2, tour[:, None, :].expand(-1, n, -1))


def two_opt(dist, tour):
    n = tour.shape[1]
    d = ordered_distances(dist, tour)
    leg = torch.diagonal(d.roll(-1, 2), dim1=1, dim2=2)
    delta = d + d.roll((-1, -1), (1, 2)) - leg[:, :, None] - leg[:, None, :]
    pos = torch.arange(n)
    delta = delta.masked_fill(pos[:, None] >= pos[None, :] - 1, float("inf"))
    gain, flat = delta.flatten(1).min(1)
    i, j = (flat // n)[:, None], (flat % n)[:, None]
    inside = (pos > i) & (pos <= j) & (gain < -1e-4)[:, None]
    order = torch.where(inside, i + 1 + j - pos, pos)
    return tour.gather(1, order), gain.clamp(max=0)


def or_opt(dist, tour):
    n = tour.shape[1]
    d = ordered_distances(dist, tour)
    leg = torch.diagonal(d.roll(-1, 2), dim1=1, dim2=2)
    skip = torch.diagonal(d.roll((1, -1), (1, 2)), dim1=1, dim2=2)
    removal = leg.roll(1, 1) + leg - skip
    insertion = d + d.roll(-1, 2) - leg[:, None, :]
    delta = insertion - removal[:, :, None]
    pos = torch.arange(n)
    touching = (pos[:, None] == pos) | ((pos[:, None] - 1) % n == pos)
    delta = delta.masked_fill(touching | (pos[:, None] == 0), float("inf"))
    gain, flat = delta.flatten(1).min(1)
    stop, after = (flat // n)[:, None], (flat % n)[:, None]
    key = pos.to(d.dtype).expand(len(tour), -1)
    key = torch.where((pos == stop) & (gain < -1e-4)[:, None], after + 0.5, key)
    return tour.gather(1, key.argsort(1)), gain.clamp(max=0)


@torch.compile(dynamic=False)
def improve(dist, tour):
    tour, g1 = two_opt(dist, tour)
    tour, g2 = or_opt(dist, tour)
    return tour, g1 + g2


def double_bridge(tour, gen):
    """Cut at three random places and swap the two middle pieces."""
    n = tour.shape[1]
    cuts = torch.rand(len(tour), n - 1, generator=gen).topk(3, dim=1).indices.sort(1).values + 1
    a, b, c = cuts[:, 0:1], cuts[:, 1:2], cuts[:, 2:3]
    pos = torch.arange(n)
    order = torch.where((pos >= a) & (pos < a + c - b), pos + b - a, pos.expand(len(tour), -1))
    order = torch.where((pos >= a + c - b) & (pos < c), pos - (c - b), order)
    return tour.gather(1, order)


def main():
    gen = torch.Generator().manual_seed(8)
    for shift in ("morning", "midday", "evening"):
        dist = city(gen)
        tour = nearest_neighbour_tours(dist)
        start = tour_length(dist, tour)
        best, best_length = tour, start
        t0 = time.perf_counter()
        for it in range(1, ROUNDS + 1):
            tour, gain = improve(dist, tour)
            stuck = gain > -1e-4
            if stuck.any():
                length = tour_length(dist, tour)
                better = length < best_length - 1e-4
                best = torch.where(better[:, None], tour, best)
                best_length = torch.where(better, length, best_length)
                tour = torch.where(stuck[:, None], double_bridge(best, gen), tour)
            if it % 50 == 0:
                print(
                    f"  {shift} round {it:3d}  mean {best_length.mean():.2f} km  kicked {stuck.sum().item()}"
                )
        dt = time.perf_counter() - t0
        final = tour_length(dist, best)
        assert (best.sort(1).values == torch.arange(STOPS)).all()
        print(
            f"{shift}: {start.mean():.2f} -> {final.mean():.2f} km ({100 * (1 - (final / start).mean()):.1f}% saved), "
            f"{1e3 * dt / it:.1f} ms/round"
        )


if __name__ == "__main__":
    main()
