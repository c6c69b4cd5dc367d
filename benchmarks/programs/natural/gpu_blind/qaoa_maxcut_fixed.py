"""QAOA on a weighted MaxCut instance: dense state-vector simulation, angles trained by SPSA.

The state of n qubits is a pair of real vectors (real and imaginary part) of 2**n amplitudes. One QAOA layer is a diagonal phase exp(-i gamma C)
followed by exp(-i beta X) on every qubit.
"""

import math
import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
N = 8 if SMOKE else 23
DEPTH = 2 if SMOKE else 4
ITERS = 12 if SMOKE else 200


def random_regular_like(n, degree, gen):
    """Weighted ring plus random chords."""
    edges = {(i, (i + 1) % n) for i in range(n)}
    while len(edges) < n * degree // 2:
        i, j = torch.randint(0, n, (2,), generator=gen).tolist()
        if i != j:
            edges.add((min(i, j), max(i, j)))
    edges = sorted({(min(e), max(e)) for e in edges})
    weights = (0.5 + torch.rand(len(edges), generator=gen)).tolist()
    return edges, weights


def cut_values(n, edges, weights):
    """Value of the cut for each of the 2**n bit strings."""
    idx = torch.arange(2**n, device=DEV, dtype=torch.int32)
    cost = torch.zeros(2**n, device=DEV)
    for (i, j), w in zip(edges, weights):
        cost += w * (((idx >> i) ^ (idx >> j)) & 1)
    return cost


def uniform_state(n):
    re = torch.full((2**n,), 2 ** (-n / 2), device=DEV)
    return re, torch.zeros_like(re)


@torch.compile
def qaoa_layer(psi, cost, gamma, beta):
    """exp(-i beta sum X) exp(-i gamma C) |psi>"""
    re, im = psi
    cg, sg = torch.cos(gamma * cost), torch.sin(gamma * cost)
    re, im = re * cg + im * sg, im * cg - re * sg
    c, s = torch.cos(beta), torch.sin(beta)
    for q in range(N):
        re, im = re.view(-1, 2, 2**q), im.view(-1, 2, 2**q)
        re, im = (c * re + s * im.flip(1)).reshape(-1), (c * im - s * re.flip(1)).reshape(-1)
    return re, im


@torch.no_grad()
def expectation(angles, cost):
    psi = uniform_state(N)
    for gamma, beta in zip(angles[0], angles[1]):
        psi = qaoa_layer(psi, cost, gamma, beta)
    probs = psi[0].square() + psi[1].square()
    return torch.dot(probs, cost), probs


class SPSA:
    """Simultaneous perturbation with the usual gain sequences."""

    def __init__(self, a=0.02, c=0.05, stability=20, seed=3):
        self.a, self.c, self.A = a, c, stability
        self.gen = torch.Generator().manual_seed(seed)

    def step(self, k, angles, f):
        ak = self.a / (k + 1 + self.A) ** 0.602 * self.A**0.602
        ck = self.c / (k + 1) ** 0.101
        delta = (torch.randint(0, 2, angles.shape, generator=self.gen) * 2 - 1).to(angles)
        up, _ = f(angles + ck * delta)
        down, _ = f(angles - ck * delta)
        slope = (up - down) / (2 * ck)
        return angles + ak * torch.clamp(slope, -4, 4) * delta, 0.5 * (up + down)


def main():
    gen = torch.Generator().manual_seed(11)
    edges, weights = random_regular_like(N, 3, gen)
    cost = cut_values(N, edges, weights)
    best = cost.max().item()
    print(f"{N} qubits, {len(edges)} edges, total weight {sum(weights):.2f}, optimum {best:.3f}")

    # linear ramp start, as from annealing
    ramp = (torch.arange(DEPTH, device=DEV) + 0.5) / DEPTH
    angles = torch.stack([0.6 * ramp, 0.6 * (1 - ramp)])

    opt = SPSA()
    start = time.perf_counter()
    for k in range(ITERS):
        angles, value = opt.step(k, angles, lambda a: expectation(a, cost))
        if k % max(1, ITERS // 8) == 0:
            print(f"iter {k:4d}  <C> {value.item():.4f}  ratio {value.item() / best:.4f}")
    if DEV == "cuda":
        torch.cuda.synchronize()
    print(f"{ITERS} iterations in {time.perf_counter() - start:.2f} s")

    value, probs = expectation(angles, cost)
    norm = probs.double().sum().item()
    assert abs(norm - 1) < 1e-2, norm
    shots = torch.multinomial(probs.view(2 ** (N // 2), -1).sum(1), 256, replacement=True)
    rows = probs.view(2 ** (N // 2), -1)[shots]
    low = torch.multinomial(rows, 1).squeeze(1)
    sample = cost[shots * rows.shape[1] + low]
    print(
        f"final <C> {value.item():.4f}, best of 256 shots {sample.max().item():.3f} of {best:.3f}, norm {norm:.5f}"
    )
    print("angles", [[round(v, 3) for v in row] for row in angles.tolist()])
    assert math.isfinite(value.item())


if __name__ == "__main__":
    main()
