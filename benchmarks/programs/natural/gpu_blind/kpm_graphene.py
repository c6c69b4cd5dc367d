"""Density of states of disordered graphene in a magnetic field with the kernel polynomial method (KPM)."""

import math
import os
import time

import numpy as np
import torch

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
L = 48 if SMOKE else 1024  # unit cells per side
R = 2 if SMOKE else 4  # random vectors
N_MOM = 32 if SMOKE else 1024  # Chebyshev moments (two per step)
FLUX = 3 if SMOKE else 8  # flux quanta through the sample
HALF_BAND = 3.6


class Honeycomb:
    """Two sublattices on an L x L grid of cells; A(i,j) hops to B(i,j), B(i-1,j), B(i,j-1)."""

    def __init__(self, disorder, seed):
        g = torch.Generator(device=device).manual_seed(seed)
        w = torch.rand(2, L, L, generator=g, device=device) - 0.5
        self.onsite = (disorder * w).float()
        # Landau gauge: the phase of one bond grows with the row
        row = torch.arange(L, device=device).float().view(L, 1)
        ang = 2 * math.pi * FLUX * row / L
        ones = torch.ones(L, 1, device=device)
        self.peierls = torch.polar(ones, ang)

    def apply(self, psi):
        """psi (R, 2, L, L) complex64 -> H psi / HALF_BAND."""
        a, b = psi[:, 0], psi[:, 1]
        up = b + torch.roll(b, 1, 1) + self.peierls * torch.roll(b, 1, 2)
        down = a + torch.roll(a, -1, 1) + torch.roll(self.peierls.conj() * a, -1, 2)
        out = -torch.stack([up, down], 1) + self.onsite * psi
        return out / HALF_BAND


def build_step(lat):
    @torch.compile
    def cheb_step(prev, cur):
        """One Chebyshev recursion and the two moments it gives."""
        nxt = 2 * lat.apply(cur) - prev
        m_even = (cur.conj() * cur).sum((1, 2, 3)).real
        m_odd = (nxt.conj() * cur).sum((1, 2, 3)).real
        return cur, nxt, m_even, m_odd

    return cheb_step


def moments(lat, seed):
    g = torch.Generator(device=device).manual_seed(seed)
    phase = torch.rand(R, 2, L, L, generator=g, device=device) * (2 * math.pi)
    v0 = torch.polar(torch.ones_like(phase), phase)
    dim = 2 * L * L
    step = build_step(lat)
    mu = torch.zeros(N_MOM, R, device=device, dtype=torch.float64)
    prev, cur = v0, lat.apply(v0)
    mu0 = torch.full((R,), float(dim), device=device, dtype=torch.float64)
    mu1 = (v0.conj() * cur).sum((1, 2, 3)).real.double()
    mu[0], mu[1] = mu0, mu1
    for n in range(1, N_MOM // 2):
        prev, cur, even, odd = step(prev, cur)
        # mu_2n = 2<a_n|a_n> - mu_0, mu_2n+1 = 2<a_n+1|a_n> - mu_1
        mu[2 * n] = 2 * even.double() - mu0
        mu[2 * n + 1] = 2 * odd.double() - mu1
    return (mu / dim).mean(1).cpu().numpy()


def jackson(n):
    k = np.arange(n)
    q = np.pi / (n + 1)
    return ((n - k + 1) * np.cos(q * k) + np.sin(q * k) / np.tan(q)) / (n + 1)


def dos(mu, energies):
    x = energies / HALF_BAND
    t = np.cos(np.outer(np.arccos(x), np.arange(len(mu))))
    c = mu * jackson(len(mu))
    c[1:] *= 2
    return t @ c / (np.pi * np.sqrt(1 - x * x)) / HALF_BAND


def main():
    grid = np.linspace(-3.4, 3.4, 681)
    de = grid[1] - grid[0]
    t0 = time.time()
    for disorder in (0.0, 0.3, 0.8):
        lat = Honeycomb(disorder, seed=2)
        mu = moments(lat, seed=40)
        rho = dos(mu, grid)
        peak = grid[rho.argmax()]
        print(
            f"W={disorder:.1f}: norm {rho.sum() * de:.5f}  rho(0) {rho[340]:.5f}  "
            f"van Hove at {abs(peak):.3f} height {rho.max():.4f}  second moment {(grid**2 * rho).sum() * de:.4f}"
        )
    print(f"total {time.time() - t0:.2f} s")


if __name__ == "__main__":
    main()
