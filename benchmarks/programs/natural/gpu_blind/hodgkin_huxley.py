"""Population of Hodgkin-Huxley neurons integrated with classic RK4."""

import os
import time
from dataclasses import dataclass

import torch

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))


@dataclass
class HHParams:
    c_m: float = 1.0
    g_na: float = 120.0
    g_k: float = 36.0
    g_l: float = 0.3
    e_na: float = 50.0
    e_k: float = -77.0
    e_l: float = -54.387
    dt: float = 0.02
    threshold: float = 0.0


P = HHParams()


def vtrap(x, y):
    z = x / y
    small = z.abs() < 1e-4
    safe = torch.where(small, torch.ones_like(z), z)
    return torch.where(small, y * (1 + z / 2), x / (1 - torch.exp(-safe)))


def rates(v):
    a_m = 0.1 * vtrap(v + 40.0, 10.0)
    b_m = 4.0 * torch.exp(-(v + 65.0) / 18.0)
    a_h = 0.07 * torch.exp(-(v + 65.0) / 20.0)
    b_h = 1.0 / (1.0 + torch.exp(-(v + 35.0) / 10.0))
    a_n = 0.01 * vtrap(v + 55.0, 10.0)
    b_n = 0.125 * torch.exp(-(v + 65.0) / 80.0)
    return a_m, b_m, a_h, b_h, a_n, b_n


def derivatives(v, m, h, n, i_ext):
    a_m, b_m, a_h, b_h, a_n, b_n = rates(v)
    i_na = P.g_na * m * m * m * h * (v - P.e_na)
    i_k = P.g_k * n * n * n * n * (v - P.e_k)
    i_l = P.g_l * (v - P.e_l)
    dv = (i_ext - i_na - i_k - i_l) / P.c_m
    dm = a_m * (1 - m) - b_m * m
    dh = a_h * (1 - h) - b_h * h
    dn = a_n * (1 - n) - b_n * n
    return dv, dm, dh, dn


def rk4_step(v, m, h, n, spikes, i_ext):
    dt = P.dt
    y = (v, m, h, n)
    k1 = derivatives(*y, i_ext)
    k2 = derivatives(*(a + 0.5 * dt * k for a, k in zip(y, k1)), i_ext)
    k3 = derivatives(*(a + 0.5 * dt * k for a, k in zip(y, k2)), i_ext)
    k4 = derivatives(*(a + dt * k for a, k in zip(y, k3)), i_ext)
    out = [a + dt / 6.0 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4)]
    crossed = (out[0] > P.threshold) & (v <= P.threshold)
    return out[0], out[1], out[2], out[3], spikes + crossed.to(spikes.dtype)


def steady_state(v):
    a_m, b_m, a_h, b_h, a_n, b_n = rates(v)
    return a_m / (a_m + b_m), a_h / (a_h + b_h), a_n / (a_n + b_n)


def main():
    torch.manual_seed(0)
    num = max(1024, int(8_000_000 * SCALE))
    substeps, iters, warmup = 10, 40, 3

    v = -65.0 + 2.0 * torch.randn(num, device=DEVICE)
    m, h, n = steady_state(v)
    spikes = torch.zeros(num, device=DEVICE)
    i_ext = 6.0 + 8.0 * torch.rand(num, device=DEVICE)

    step = torch.compile(rk4_step)

    def advance(state):
        for _ in range(substeps):
            state = step(*state, i_ext)
        return state

    state = (v, m, h, n, spikes)
    with torch.no_grad():
        for _ in range(warmup):
            state = advance(state)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(iters):
            state = advance(state)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        elapsed = time.perf_counter() - start

    v, m, h, n, spikes = state
    sim_ms = (iters + warmup) * substeps * P.dt
    print(f"neurons {num}  simulated {sim_ms:.2f} ms  mean V {v.mean().item():.4f} mV")
    print(f"spikes/neuron {spikes.mean().item():.5f}  n gate {n.mean().item():.5f}")
    print(f"{1000 * elapsed / iters:.3f} ms per {substeps} steps")


if __name__ == "__main__":
    main()
