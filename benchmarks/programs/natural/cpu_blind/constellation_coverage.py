"""One day of coverage of a low-orbit communication constellation (Walker shells, circular orbits, J2 drift).

For ground sites spread over the populated latitudes: satellites in view, best elevation, shortest slant range, and
from these the outage statistics.  Time is walked in chunks.
"""

import math
import time

import torch

R_EARTH = 6371.0
ALTITUDE = 780.0
R_ORBIT = R_EARTH + ALTITUDE
OMEGA_EARTH = 7.2921159e-5
MU = 398600.4418
J2 = 1.08263e-3
MEAN_MOTION = math.sqrt(MU / R_ORBIT**3)
SITES = 1500
STEP_S = 40.0
CHUNK = 48
CHUNKS = 45
MIN_ELEVATION = math.radians(8.2)


def walker(planes, per_plane, inclination_deg, phasing):
    p = torch.arange(planes).repeat_interleave(per_plane).float()
    s = torch.arange(per_plane).repeat(planes).float()
    spread = math.pi if inclination_deg > 80 else 2 * math.pi
    raan = spread * p / planes
    u0 = 2 * math.pi * (s / per_plane + phasing * p / (planes * per_plane))
    inc = torch.full_like(raan, math.radians(inclination_deg))
    return raan, u0, inc


def ground_sites(n, gen):
    """Sites drawn by area, thinned towards the poles."""
    lat = torch.asin(2 * torch.rand(4 * n, generator=gen) - 1)
    keep = torch.rand(4 * n, generator=gen) < torch.exp(-(lat / 0.8).square())
    lat = lat[keep][:n]
    lon = 2 * math.pi * torch.rand(lat.shape[0], generator=gen) - math.pi
    weight = torch.exp(torch.randn(lat.shape[0], generator=gen))
    return lat, lon, weight / weight.sum()


def make_coverage(lat_g, lon_g, raan, u0, inc):
    raan_rate = -1.5 * J2 * (R_EARTH / R_ORBIT) ** 2 * MEAN_MOTION * torch.cos(inc)

    @torch.compile
    def coverage(t):
        # sub-satellite points [satellites, times]
        u = u0[:, None] + MEAN_MOTION * t
        lat_s = torch.asin(torch.sin(inc)[:, None] * torch.sin(u))
        node = raan[:, None] + raan_rate[:, None] * t - OMEGA_EARTH * t
        lon_s = node + torch.atan2(torch.cos(inc)[:, None] * torch.sin(u), torch.cos(u))
        # central angle between site and sub-satellite point [sites, satellites, times]
        dlon = lon_s[None] - lon_g[:, None, None]
        cos_psi = torch.sin(lat_g)[:, None, None] * torch.sin(lat_s)[None] + torch.cos(lat_g)[
            :, None, None
        ] * torch.cos(lat_s)[None] * torch.cos(dlon)
        cos_psi = cos_psi.clamp(-1.0, 1.0)
        elevation = torch.atan2(cos_psi - R_EARTH / R_ORBIT, torch.sqrt(1.0 - cos_psi * cos_psi))
        slant = torch.sqrt(R_EARTH**2 + R_ORBIT**2 - 2 * R_EARTH * R_ORBIT * cos_psi)
        in_view = (elevation > MIN_ELEVATION).sum(dim=1)
        return in_view, elevation.amax(dim=1), slant.amin(dim=1)

    return coverage


class OutageTracker:
    """Longest run of times without a satellite, per site, over chunk borders."""

    def __init__(self, n):
        self.run = torch.zeros(n)
        self.longest = torch.zeros(n)
        self.dark = torch.zeros(n)

    def update(self, in_view):
        for k in range(in_view.shape[1]):
            out = (in_view[:, k] == 0).float()
            self.run = (self.run + 1) * out
            self.longest = torch.maximum(self.longest, self.run)
            self.dark += out


@torch.inference_mode()
def main():
    gen = torch.Generator().manual_seed(11)
    lat_g, lon_g, weight = ground_sites(SITES, gen)
    shells = [walker(5, 9, 86.4, 1.0), walker(3, 7, 53.0, 1.0)]
    raan, u0, inc = (torch.cat(parts) for parts in zip(*shells))
    print(f"{raan.numel()} satellites, {lat_g.numel()} sites, {CHUNK * CHUNKS} times")
    coverage = make_coverage(lat_g, lon_g, raan, u0, inc)
    tracker = OutageTracker(lat_g.numel())
    best_sum, delay_sum = torch.zeros(lat_g.numel()), torch.zeros(lat_g.numel())
    t0 = time.perf_counter()
    for c in range(CHUNKS):
        t = STEP_S * torch.arange(c * CHUNK, (c + 1) * CHUNK, dtype=torch.float32)
        in_view, best, slant = coverage(t)
        tracker.update(in_view)
        best_sum += best.clamp_min(0).sum(dim=1)
        delay_sum += slant.sum(dim=1) / 299.792458
        if c % 9 == 0:
            print(
                f"chunk {c:3d} mean satellites in view {in_view.float().mean():.2f} "
                f"best elevation {math.degrees(best.mean()):.1f} deg"
            )
    total = CHUNK * CHUNKS
    avail = 1 - tracker.dark / total
    print(
        f"availability {100 * (weight * avail).sum():.2f} % (worst site {100 * avail.min():.2f} %), longest outage "
        f"{STEP_S * tracker.longest.max() / 60:.1f} min, one-way delay {(weight * delay_sum).sum() / total:.2f} ms, "
        f"elevation {math.degrees((weight * best_sum).sum() / total):.1f} deg"
    )
    print(f"{time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
