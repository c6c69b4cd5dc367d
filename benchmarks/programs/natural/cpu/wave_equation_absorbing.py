"""Acoustic wave propagation with a sponge layer, a source and receivers."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def propagate(p, q, c2, damp, source, receivers, wavelet, dt=1e-3, dx=5.0):
    traces = []
    for t in range(wavelet.shape[0]):
        lap = torch.zeros_like(p)
        lap[2:-2, 2:-2] = (
            -5.0 * p[2:-2, 2:-2]
            + 4 / 3 * (p[1:-3, 2:-2] + p[3:-1, 2:-2] + p[2:-2, 1:-3] + p[2:-2, 3:-1])
            - 1 / 12 * (p[:-4, 2:-2] + p[4:, 2:-2] + p[2:-2, :-4] + p[2:-2, 4:])
        ) / dx**2
        nxt = (2 * p - q * damp + dt**2 * c2 * lap) * damp
        nxt[source[0], source[1]] += wavelet[t] * dt**2
        q, p = p * damp, nxt
        traces.append(p[receivers, 5])
    return p, q, torch.stack(traces)


def build(device, compiled):
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    n, steps = pick(300, 24), pick(8, 3)
    edge = torch.minimum(torch.arange(n), torch.arange(n).flip(0)).clamp(max=20).float() / 20
    damp = (0.95 + 0.05 * torch.minimum(edge[:, None], edge[None])).to(device)
    c2 = (2000 + 500 * torch.rand(n, n, device=device)) ** 2
    state = [torch.zeros(n, n, device=device), torch.zeros(n, n, device=device)]
    receivers = torch.arange(5, n - 5, max(1, n // 30), device=device)
    wavelet = torch.randn(steps, device=device) * 1e6
    run = torch.compile(propagate, backend=BACKEND) if compiled else propagate

    def step():
        p, q, traces = run(*state, c2, damp, (n // 2, n // 2), receivers, wavelet)
        state[:] = [p, q]
        return traces

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
