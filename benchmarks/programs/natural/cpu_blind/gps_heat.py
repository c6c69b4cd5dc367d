"""Daily heat maps from GPS pings of a bicycle-sharing fleet.

Each day is a file with a varying number of pings. Pings are projected to Web
Mercator, weighted by dwell and accuracy, and spread bilinearly over a raster;
the rasters of ride count and mean speed are accumulated over the month.
"""

import math
import time

import torch

EARTH = 6378137.0
GRID = 384
LON0, LAT0 = 8.48, 47.33
SPAN = 14_000.0


def make_days(days=24, seed=6):
    """Trips cluster around a few stations; counts differ from day to day."""
    g = torch.Generator().manual_seed(seed)
    stations = torch.randn(40, 2, generator=g) * 1800.0
    popularity = torch.rand(40, generator=g) ** 2 + 0.02
    out = []
    for _ in range(days):
        n = int(torch.randint(160_000, 260_000, (1,), generator=g))
        s = torch.multinomial(popularity, n, replacement=True, generator=g)
        spread = 60.0 + 700.0 * torch.rand(n, 1, generator=g) ** 3
        xy = stations[s] + spread * torch.randn(n, 2, generator=g)
        scale = math.cos(math.radians(LAT0))
        lon = LON0 + torch.rad2deg(xy[:, 0] / (EARTH * scale))
        lat = LAT0 + torch.rad2deg(xy[:, 1] / EARTH)
        speed = 4.5 * torch.rand(n, generator=g) ** 0.5
        hdop = 0.6 + 3.0 * torch.rand(n, generator=g)
        dwell = 1.0 + 9.0 * torch.rand(n, generator=g)
        out.append((lon, lat, speed, hdop, dwell))
    return out


def mercator(lon, lat):
    x = EARTH * torch.deg2rad(lon - LON0)
    y = EARTH * (
        torch.log(torch.tan(math.pi / 4 + torch.deg2rad(lat) / 2))
        - math.log(math.tan(math.pi / 4 + math.radians(LAT0) / 2))
    )
    return x, y


def ping_weight(speed, hdop, dwell):
    accuracy = 1.0 / (1.0 + hdop * hdop)
    moving = torch.sigmoid((speed - 0.6) * 4.0)
    return accuracy * torch.sqrt(dwell) * (0.2 + 0.8 * moving)


def footprint(lon, lat):
    """Four raster cells and bilinear shares of every ping."""
    x, y = mercator(lon, lat)
    gx = ((x / SPAN + 0.5) * (GRID - 1)).clamp(0.0, GRID - 1.001)
    gy = ((y / SPAN + 0.5) * (GRID - 1)).clamp(0.0, GRID - 1.001)
    ix, iy = gx.floor(), gy.floor()
    fx, fy = gx - ix, gy - iy
    base = iy.long() * GRID + ix.long()
    cells = torch.stack([base, base + 1, base + GRID, base + GRID + 1])
    share = torch.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy])
    return cells, share


def deposit(raster, cells, values):
    raster.index_add_(0, cells.reshape(-1), values.reshape(-1))


def rasterise(count, momentum, lon, lat, speed, hdop, dwell):
    cells, share = footprint(lon, lat)
    weight = ping_weight(speed, hdop, dwell)
    deposit(count, cells, share * weight)
    deposit(momentum, cells, share * (weight * speed))
    return weight.sum(), (weight * speed).sum()


def hot_spots(count, k=5):
    top = count.topk(k).indices
    return [(int(i) % GRID, int(i) // GRID) for i in top]


@torch.no_grad()
def main():
    torch.manual_seed(0)
    days = make_days()
    process = torch.compile(rasterise, dynamic=True)

    scratch = torch.zeros(GRID * GRID), torch.zeros(GRID * GRID)
    for day in days[:3]:
        process(*scratch, *day)

    count = torch.zeros(GRID * GRID)
    momentum = torch.zeros(GRID * GRID)
    mass = flow = 0.0
    passes = 3
    t0 = time.perf_counter()
    for _ in range(passes):
        for day in days:
            w, m = process(count, momentum, *day)
            mass += w.item()
            flow += m.item()
    dt = (time.perf_counter() - t0) / (passes * len(days))

    rel = abs(count.double().sum().item() - mass) / mass
    mean_speed = momentum.double().sum().item() / count.double().sum().item()
    assert rel < 1e-3 and abs(mean_speed - flow / mass) < 1e-2, (rel, mean_speed)
    print(f"{sum(len(d[0]) for d in days)} pings, mean speed {mean_speed:.3f} m/s, mass error {rel:.1e}")
    print("hot spots:", hot_spots(count))
    print(f"{dt * 1e3:.2f} ms per call")


if __name__ == "__main__":
    main()
