"""PBE exchange-correlation energy and potential on a molecular integration grid (float64),
driven by a toy self-consistency loop with linear density mixing."""

import math
import os
import time

import torch

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"
POINTS = 20_000 if SMOKE else 4_000_000
CYCLES = 4 if SMOKE else 50
DT = torch.float64

KAPPA, MU = 0.804, 0.2195149727645171
BETA, GAMMA = 0.06672455060314922, (1 - math.log(2)) / math.pi**2
CX = -0.75 * (3 / math.pi) ** (1 / 3)


def slater_pbe_exchange(rho, sigma):
    rho13 = rho ** (1 / 3)
    kf = (3 * math.pi**2) ** (1 / 3) * rho13
    s2 = sigma / (4 * kf**2 * rho**2)
    enhancement = 1 + KAPPA - KAPPA / (1 + MU * s2 / KAPPA)
    return CX * rho13 * enhancement


def pw92_correlation(rs):
    a, a1, b1, b2, b3, b4 = 0.0310907, 0.21370, 7.5957, 3.5876, 1.6382, 0.49294
    root = rs.sqrt()
    den = 2 * a * (b1 * root + b2 * rs + b3 * rs * root + b4 * rs**2)
    return -2 * a * (1 + a1 * rs) * torch.log1p(1 / den)


def pbe_correlation(rho, sigma):
    rs = (3 / (4 * math.pi * rho)) ** (1 / 3)
    ec = pw92_correlation(rs)
    kf = (3 * math.pi**2 * rho) ** (1 / 3)
    ks2 = 4 * kf / math.pi
    t2 = sigma / (4 * ks2 * rho**2)
    big_a = BETA / GAMMA / torch.expm1(-ec / GAMMA).clamp(min=1e-14)
    at2 = big_a * t2
    h = GAMMA * torch.log1p(BETA / GAMMA * t2 * (1 + at2) / (1 + at2 + at2**2))
    return ec + h


@torch.compile
def xc_energy(rho, sigma, weights):
    dens = rho.clamp(min=1e-10)
    eps = slater_pbe_exchange(dens, sigma) + pbe_correlation(dens, sigma)
    eps = torch.where(rho > 1e-9, eps, 0.0)
    return (weights * rho * eps).sum()


def xc_potential(rho, sigma, weights):
    """Returns E_xc and the derivatives v_rho, v_sigma per grid point."""
    rho = rho.detach().requires_grad_()
    sigma = sigma.detach().requires_grad_()
    e = xc_energy(rho, sigma, weights)
    v_rho, v_sigma = torch.autograd.grad(e, (rho, sigma))
    return e.detach(), v_rho / weights, v_sigma / weights


class Molecule:
    """A few atoms with exponential densities; grid points with radial quadrature weights."""

    def __init__(self, points, atoms=6, seed=0):
        g = torch.Generator(device=DEVICE).manual_seed(seed)
        per = points // atoms
        self.centres = torch.randn(atoms, 3, generator=g, device=DEVICE, dtype=DT) * 3
        u = torch.rand(atoms, per, generator=g, device=DEVICE, dtype=DT) * 0.98 + 0.01
        r = 2 * u / (1 - u)
        d = torch.randn(atoms, per, 3, generator=g, device=DEVICE, dtype=DT)
        d = d / d.norm(dim=-1, keepdim=True)
        self.xyz = (self.centres[:, None] + r[..., None] * d).reshape(-1, 3)
        self.weights = (4 * math.pi * r**2 * 2 / (1 - u) ** 2 / per / atoms).reshape(-1)

    def density(self, zeta):
        rho = torch.zeros(len(self.xyz), device=DEVICE, dtype=DT)
        grad = torch.zeros_like(self.xyz)
        for c in self.centres:
            dv = self.xyz - c
            r = dv.norm(dim=1).clamp(min=1e-6)
            part = zeta**3 / math.pi * torch.exp(-2 * zeta * r)
            rho += part
            grad += (-2 * zeta * part / r)[:, None] * dv
        return rho, (grad**2).sum(1)


def main():
    mol = Molecule(POINTS)
    rho, sigma = mol.density(1.0)
    target_rho, target_sigma = mol.density(1.25)
    last = 0.0
    elapsed = []
    for cycle in range(CYCLES):
        t0 = time.perf_counter()
        e, v_rho, v_sigma = xc_potential(rho, sigma, mol.weights)
        e = e.item()
        elapsed.append(time.perf_counter() - t0)
        response = 0.3 * (1 + 0.05 * torch.tanh(v_rho))
        rho = rho + response * (target_rho - rho)
        sigma = sigma + response * (target_sigma - sigma)
        if cycle % 10 == 0 or cycle == CYCLES - 1:
            print(f"cycle {cycle:3d}  E_xc {e:.10f}  dE {e - last:+.2e}  {elapsed[-1] * 1e3:.2f} ms")
        last = e
    print("potential range", v_rho.min().item(), v_rho.max().item())


if __name__ == "__main__":
    main()
