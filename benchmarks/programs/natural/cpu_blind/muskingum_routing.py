"""Ensemble flood routing: Muskingum-Cunge over a dendritic river network.

Lateral inflow of an ensemble of rainfall-runoff members is routed reach by reach from the headwaters to the outlet.
Reaches are grouped by height above the leaves, so that all the upstream neighbours of a group are known when the
group is computed.
"""

import time

import numpy as np
import torch


def random_network(n_reach, window, seed):
    """downstream[i] is the reach that i drains into; reach 0 is the outlet."""
    rng = np.random.default_rng(seed)
    downstream = np.full(n_reach, -1, dtype=np.int64)
    for i in range(1, n_reach):
        downstream[i] = rng.integers(max(0, i - window), i)
    height = np.zeros(n_reach, dtype=np.int64)
    for i in range(n_reach - 1, 0, -1):
        height[downstream[i]] = max(height[downstream[i]], height[i] + 1)
    return downstream, height


class RiverRouter:
    def __init__(self, n_reach=900, members=80, dt_hours=6.0, seed=3):
        g = torch.Generator().manual_seed(seed)
        downstream, height = random_network(n_reach, 60, seed)
        self.members = members
        self.n_reach = n_reach
        length_km = 2.0 + 10.0 * torch.rand(n_reach, generator=g)
        celerity = 3.0 + 3.0 * torch.rand(n_reach, generator=g)  # km/h
        k = (length_km / celerity).clamp(min=1.2)
        x = 0.1 + 0.25 * torch.rand(n_reach, generator=g)
        dt = torch.minimum(torch.full_like(k, dt_hours), 2 * k * (1 - x) * 0.98)
        denom = 2 * k * (1 - x) + dt
        self.c0 = (dt - 2 * k * x) / denom
        self.c1 = (dt + 2 * k * x) / denom
        self.c2 = (2 * k * (1 - x) - dt) / denom
        assert torch.allclose(self.c0 + self.c1 + self.c2, torch.ones(n_reach), atol=1e-5)
        self.levels = []
        for lev in range(int(height.max()) + 1):
            idx = np.nonzero(height == lev)[0]
            self.levels.append((torch.from_numpy(idx), torch.from_numpy(downstream[idx])))
        self.area = 5.0 + 20.0 * torch.rand(n_reach, generator=g)  # km2 of each reach's own catchment

    @torch.compile
    def step(self, inflow_prev, outflow_prev, lateral):
        """One time step for the whole network. All are (members, reaches)."""
        inflow = lateral.clone()
        outflow = torch.zeros_like(lateral)
        for level, (idx, down) in enumerate(self.levels):
            i_new = inflow[:, idx]
            q = (
                self.c0[idx] * i_new
                + self.c1[idx] * inflow_prev[:, idx]
                + self.c2[idx] * outflow_prev[:, idx]
            )
            q = q.clamp(min=0.0)
            outflow[:, idx] = q
            if level < len(self.levels) - 1:  # the last level is the outlet, it drains out of the basin
                inflow.index_add_(1, down, q)
        return inflow, outflow


def lateral_inflow(router, steps, seed):
    """Gamma-shaped storms on a slow base flow, different in every member."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(steps, dtype=torch.float32)
    base = 0.02 * router.area
    storms = torch.zeros(router.members, steps)
    for s in range(12):
        start = torch.rand(router.members, 1, generator=g) * steps
        depth = torch.distributions.Exponential(1.0).sample((router.members, 1)) * 0.8
        age = (t - start).clamp(min=0) / 5.0
        storms += depth * age * torch.exp(1 - age)
    return storms, base


def main():
    torch.manual_seed(0)
    router = RiverRouter()
    steps = 900
    storms, base = lateral_inflow(router, steps, 11)
    inflow = base.expand(router.members, -1).clone()
    outflow = inflow.clone()
    peak = torch.zeros(router.members)
    total_in = total_out = 0.0
    print(f"{router.n_reach} reaches in {len(router.levels)} levels, {router.members} members")
    t0 = time.perf_counter()
    with torch.no_grad():
        for t in range(steps):
            lateral = base + 0.3 * storms[:, t, None] * router.area
            inflow, outflow = router.step(inflow, outflow, lateral)
            outlet = outflow[:, 0]
            peak = torch.maximum(peak, outlet)
            total_in += float(lateral.sum())
            total_out += float(outlet.sum())
            if (t + 1) % 150 == 0:
                q10, q50, q90 = torch.quantile(outlet, torch.tensor([0.1, 0.5, 0.9])).tolist()
                print(f"step {t + 1:4d} outlet q10/50/90 {q10:8.1f} {q50:8.1f} {q90:8.1f} m3/s")
    took = time.perf_counter() - t0
    print(
        f"peak median {peak.median():.1f}, volume ratio {total_out / total_in:.3f}, {took / steps * 1e3:.2f} ms per step"
    )


if __name__ == "__main__":
    main()
