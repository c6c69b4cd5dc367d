"""Batched best-improvement 2-opt for the delivery tours of several depots."""

import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(14)

DEPOTS = 3 if SMOKE else 16
STOPS = 60 if SMOKE else 1000
SWEEPS = 30 if SMOKE else 600
REPORT = 10 if SMOKE else 100


def simulate_stops():
    """Clustered customers in a 40 km square, the depot is stop 0."""
    centre = 40 * torch.rand(DEPOTS, 12, 2)
    which = torch.randint(12, (DEPOTS, STOPS))
    xy = torch.gather(centre, 1, which[..., None].expand(-1, -1, 2)) + 2.5 * torch.randn(DEPOTS, STOPS, 2)
    xy[:, 0] = 20.0
    return xy.to(device)


def travel_minutes(xy):
    """Road detour and a river with few bridges make it not quite euclidean."""
    d = torch.cdist(xy, xy) * 1.3
    side = xy[..., 1] > 20 + 3 * torch.sin(xy[..., 0] / 6)
    crossing = side[:, :, None] != side[:, None, :]
    return 1.6 * d + 6.0 * crossing


def strip_order(xy, n_strips=14):
    strip = (xy[..., 0] / 40 * n_strips).floor().clamp(0, n_strips - 1)
    along = torch.where(strip % 2 == 0, xy[..., 1], -xy[..., 1])
    tour = torch.argsort(strip * 1000 + along, dim=1)
    start = (tour == 0).int().argmax(1, keepdim=True)
    pos = (torch.arange(STOPS, device=xy.device) + start) % STOPS
    return tour.gather(1, pos)


def tour_length(dist, tour):
    b = torch.arange(tour.shape[0], device=tour.device)[:, None]
    return dist[b, tour, tour.roll(-1, 1)].sum(1)


def two_opt_sweep(dist, tour):
    """Applies the best move of each depot: reverse the stops between positions i+1 and j."""
    n = tour.shape[1]
    b = torch.arange(tour.shape[0], device=tour.device)[:, None, None]
    succ = tour.roll(-1, 1)
    here = dist[b, tour[:, :, None], tour[:, None, :]]
    there = dist[b, succ[:, :, None], succ[:, None, :]]
    edge = dist[b[:, :, 0], tour, succ]
    delta = here + there - edge[:, :, None] - edge[:, None, :]
    pos = torch.arange(n, device=tour.device)
    delta = delta.masked_fill(pos[None, :] < pos[:, None] + 2, float("inf"))
    gain, flat = delta.flatten(1).min(dim=1)
    i, j = flat // n, flat % n
    better = gain < -1e-4
    inside = (pos > i[:, None]) & (pos <= j[:, None]) & better[:, None]
    source = torch.where(inside, i[:, None] + 1 + j[:, None] - pos, pos)
    return tour.gather(1, source), torch.where(better, gain, torch.zeros_like(gain))


def main():
    xy = simulate_stops()
    dist = travel_minutes(xy)
    tour = strip_order(xy)
    start = tour_length(dist, tour)
    print(f"{DEPOTS} depots, {STOPS} stops each, start {start.mean().item():.1f} min")
    sweep = torch.compile(two_opt_sweep)

    block_ms = []
    with torch.inference_mode():
        for s in range(0, SWEEPS, REPORT):
            if device == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
            gained = torch.zeros(DEPOTS, device=device)
            for _ in range(REPORT):
                tour, gain = sweep(dist, tour)
                gained += gain
            worst = gain.min().item()
            block_ms.append((time.perf_counter() - t0) / REPORT * 1e3)
            print(
                f"sweep {s + REPORT:4d}  mean {tour_length(dist, tour).mean().item():.2f} min  "
                f"gained {-gained.mean().item():.2f}"
            )
            if worst == 0.0:
                break
    assert (tour.sort(1).values == torch.arange(STOPS, device=device)).all()
    steady = block_ms[1:] or block_ms
    print(
        f"{sum(steady) / len(steady):.3f} ms per sweep, saved {(1 - (tour_length(dist, tour) / start)).mean() * 100:.1f} %"
    )


if __name__ == "__main__":
    main()
