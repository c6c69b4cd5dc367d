"""Stout smearing of SU(3) gauge fields and the topological charge.

A small quenched ensemble (here: rough random links, no Monte Carlo) is smoothed
by many stout steps; plaquette, energy density and the clover charge Q are
measured on the way, to find the flow time t0 where t^2 E = 0.3.
"""

import time

import torch

NX, NT = 8, 16
DIM = 4
RHO = 0.05
CONFIGS = 2
STEPS = 40


def mm(a, b):
    return torch.matmul(a, b)


def dag(a):
    return a.conj().transpose(-1, -2)


def shift(field, mu, n=1):
    """Value at x + n*mu, for a field [X, Y, Z, T, 3, 3]."""
    return torch.roll(field, -n, dims=mu)


def traceless_antihermitian(m):
    a = 0.5 * (m - dag(m))
    tr = a.diagonal(dim1=-2, dim2=-1).sum(-1) / 3
    return a - tr[..., None, None] * torch.eye(3, dtype=m.dtype)


def exp_su3(q, order=7):
    """Taylor with Horner; |q| is small here so 7 terms are at machine precision of complex64."""
    one = torch.eye(3, dtype=q.dtype).expand_as(q)
    out = one
    for n in range(order, 0, -1):
        out = one + mm(q, out) / n
    return out


def random_links(gen, roughness):
    z = torch.randn(DIM, NX, NX, NX, NT, 3, 3, 2, generator=gen)
    return exp_su3(traceless_antihermitian(roughness * torch.view_as_complex(z)), order=16)


def staples(u, mu):
    """Sum of the six staples around the links in direction mu."""
    total = torch.zeros_like(u[mu])
    for nu in range(DIM):
        if nu == mu:
            continue
        # upper: U_nu(x) U_mu(x+nu) U_nu(x+mu)^+
        up = mm(mm(u[nu], shift(u[mu], nu)), dag(shift(u[nu], mu)))
        # lower: U_nu(x-nu)^+ U_mu(x-nu) U_nu(x-nu+mu)
        low = mm(mm(dag(u[nu]), u[mu]), shift(u[nu], mu))
        total = total + up + shift(low, nu, -1)
    return total


class Smearing:
    """Callable stout step with a compiled kernel; counts its steps."""

    def __init__(self, rho):
        self.rho = rho
        self.time = 0.0
        self.kernel = torch.compile(self.step)

    def step(self, u):
        new = []
        for mu in range(DIM):
            omega = self.rho * mm(staples(u, mu), dag(u[mu]))
            new.append(mm(exp_su3(traceless_antihermitian(omega)), u[mu]))
        return torch.stack(new)

    def __call__(self, u):
        self.time += self.rho
        return self.kernel(u)


def plaquette(u):
    total = 0.0
    for mu in range(DIM):
        for nu in range(mu):
            p = mm(mm(u[mu], shift(u[nu], mu)), dag(mm(u[nu], shift(u[mu], nu))))
            total = total + p.diagonal(dim1=-2, dim2=-1).sum(-1).real.mean() / 3
    return total / 6


def clover(u, mu, nu):
    """Field strength F_munu from the mean of the four plaquettes that touch x."""
    um, un = u[mu], u[nu]
    m_un, n_um = shift(un, mu), shift(um, nu)
    leaf1 = mm(mm(um, m_un), mm(dag(n_um), dag(un)))
    leaf2 = mm(mm(un, dag(shift(n_um, mu, -1))), mm(dag(shift(un, mu, -1)), shift(um, mu, -1)))
    dm, dn = shift(um, mu, -1), shift(un, nu, -1)
    leaf3 = mm(mm(dag(dm), dag(shift(dn, mu, -1))), mm(shift(dm, nu, -1), dn))
    leaf4 = mm(mm(dag(dn), shift(um, nu, -1)), mm(shift(m_un, nu, -1), dag(um)))
    return traceless_antihermitian((leaf1 + leaf2 + leaf3 + leaf4) / 4)


def measure(u):
    f = {(m, n): clover(u, m, n) for m in range(DIM) for n in range(m + 1, DIM)}
    tr = lambda a, b: mm(a, b).diagonal(dim1=-2, dim2=-1).sum(-1).real
    energy = -sum(tr(x, x) for x in f.values()).mean()
    q = tr(f[0, 1], f[2, 3]) - tr(f[0, 2], f[1, 3]) + tr(f[0, 3], f[1, 2])
    return float(energy), float(q.sum() / (4 * torch.pi**2))


def unitarity_violation(u):
    return float((mm(u, dag(u)) - torch.eye(3, dtype=u.dtype)).abs().max())


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(5)
    t_start = time.perf_counter()
    for cfg in range(CONFIGS):
        u = random_links(gen, 0.6 + 0.1 * cfg)
        smear = Smearing(RHO)
        print(f"config {cfg}: plaquette {float(plaquette(u)):.4f}")
        for step in range(1, STEPS + 1):
            u = smear(u)
            if step % 10 == 0:
                energy, charge = measure(u)
                print(
                    f"  t {smear.time:5.2f}  plaquette {float(plaquette(u)):.5f}  t^2E "
                    f"{smear.time**2 * energy:.4f}  Q {charge:+.4f}  |UU+-1| {unitarity_violation(u):.1e}  "
                    f"({time.perf_counter() - t_start:.1f} s)"
                )
        assert unitarity_violation(u) < 1e-3


if __name__ == "__main__":
    main()
