"""Transient stability screening of a transmission grid.

A set of contingency scenarios is integrated together with RK4: swing equation, a
first order governor/turbine and a simple automatic generation control signal.
"""

import math
import os
import time

import networkx as nx
import numpy as np
import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
BUSES = 16 if SMOKE else 118
SCENARIOS = 4 if SMOKE else 24
CALLS = 2 if SMOKE else 1200
WARM = 1 if SMOKE else 10
SUBSTEPS = 2 if SMOKE else 8
DT = 2e-3
F0 = 60.0


def build_grid(seed):
    """Susceptance matrix, inertia, damping and dispatch of a random grid."""
    g = nx.connected_watts_strogatz_graph(BUSES, 4, 0.15, seed=seed)
    rng = np.random.default_rng(seed)
    b = np.zeros((BUSES, BUSES), dtype=np.float32)
    for i, j in g.edges:
        b[i, j] = b[j, i] = rng.uniform(8.0, 20.0)
    inertia = rng.uniform(0.02, 0.08, BUSES).astype(np.float32)
    damping = rng.uniform(0.01, 0.03, BUSES).astype(np.float32)
    p = rng.normal(0.0, 0.5, BUSES).astype(np.float32)
    p -= p.mean()
    dev = {
        k: torch.from_numpy(v).to(DEV) for k, v in dict(b=b, inertia=inertia, damping=damping, p=p).items()
    }
    return g, dev


def contingencies(g, grid, seed):
    """Each scenario loses one line and sees one load jump."""
    rng = np.random.default_rng(seed)
    edges = list(g.edges)
    bs = grid["b"].expand(SCENARIOS, BUSES, BUSES).clone()
    loads = grid["p"].expand(SCENARIOS, BUSES).clone()
    for s, e in enumerate(rng.choice(len(edges), SCENARIOS, replace=False)):
        i, j = edges[e]
        bs[s, i, j] = bs[s, j, i] = 0.0
        loads[s, int(rng.integers(BUSES))] -= 0.8
    return bs, loads


def derivatives(theta, omega, pmech, agc, bs, loads, inertia, damping, gen_share):
    flow = (bs * torch.sin(theta[:, :, None] - theta[:, None, :])).sum(-1)
    accel = (loads + pmech - flow - damping * omega) / inertia
    freq = omega.mean(dim=1, keepdim=True) / (2 * math.pi)
    target = gen_share * agc - 0.05 * omega
    d_pmech = (target.clamp(-1.5, 1.5) - pmech) / 0.3
    d_agc = -0.6 * freq - 0.01 * agc
    return omega, accel, d_pmech, d_agc


@torch.compile(mode="reduce-overhead")
def advance(theta, omega, pmech, agc, worst, bs, loads, inertia, damping, gen_share):
    args = (bs, loads, inertia, damping, gen_share)
    for _ in range(SUBSTEPS):
        state = (theta, omega, pmech, agc)
        k1 = derivatives(*state, *args)
        k2 = derivatives(*[s + 0.5 * DT * k for s, k in zip(state, k1)], *args)
        k3 = derivatives(*[s + 0.5 * DT * k for s, k in zip(state, k2)], *args)
        k4 = derivatives(*[s + DT * k for s, k in zip(state, k3)], *args)
        for s, a, b, c, d in zip(state, k1, k2, k3, k4):
            s.add_(a + 2 * b + 2 * c + d, alpha=DT / 6)
    worst.copy_(torch.maximum(worst, omega.abs().amax(dim=1)))


def settle(grid):
    """Pre-fault angles from a few linearised power-flow corrections."""
    b, p = grid["b"].double(), grid["p"].double()
    lap = torch.diag(b.sum(1)) - b + torch.ones_like(b) / BUSES
    theta = torch.zeros(BUSES, dtype=torch.float64, device=DEV)
    for _ in range(20):
        flow = (b * torch.sin(theta[:, None] - theta[None, :])).sum(1)
        theta = theta + torch.linalg.solve(lap, p - flow)
    return theta.float()


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def main():
    g, grid = build_grid(7)
    bs, loads = contingencies(g, grid, 8)
    gen_share = torch.softmax(torch.linspace(0, 1, BUSES, device=DEV), 0)
    theta = settle(grid).expand(SCENARIOS, BUSES).clone()
    omega = torch.zeros_like(theta)
    pmech = torch.zeros_like(theta)
    agc = torch.zeros(SCENARIOS, 1, device=DEV)
    worst = torch.zeros(SCENARIOS, device=DEV)
    consts = (bs, loads, grid["inertia"], grid["damping"], gen_share)

    for _ in range(WARM):
        advance(theta, omega, pmech, agc, worst, *consts)
    sync()
    t0 = time.perf_counter()
    for _ in range(CALLS):
        advance(theta, omega, pmech, agc, worst, *consts)
    sync()
    dt = (time.perf_counter() - t0) / CALLS

    nadir_hz = (worst / (2 * math.pi)).cpu()
    end_hz = (omega.mean(1).abs() / (2 * math.pi)).cpu()
    stable = int((nadir_hz < 2.5).sum())
    ok = bool(torch.isfinite(theta).all()) and bool((nadir_hz > 0).all())
    print(
        f"ok={ok} t={(CALLS + WARM) * SUBSTEPS * DT:.2f}s stable {stable}/{SCENARIOS} "
        f"worst excursion {nadir_hz.max():.3f} Hz final {end_hz.max():.4f} Hz"
    )
    print(f"time per call: {dt * 1e3:.3f} ms")
    assert ok


if __name__ == "__main__":
    main()
