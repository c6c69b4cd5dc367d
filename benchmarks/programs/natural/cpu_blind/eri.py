"""Restricted Hartree-Fock for a ring of hydrogen atoms, symmetric stretch scan.

s-type Gaussians only (6-311G hydrogen set), so every integral has a closed form in the Boys function F0.
All two-electron integrals are formed over primitive pairs in one go and contracted afterwards.
"""

import math
import time

import torch

torch.set_default_dtype(torch.float64)

# exponent, contraction coefficient, shell
H_BASIS = [
    (33.8650, 0.0254938, 0),
    (5.09479, 0.190373, 0),
    (1.15879, 0.852161, 0),
    (0.325840, 1.0, 1),
    (0.102741, 1.0, 2),
]
N_ATOMS = 10
N_SHELL = 3
BOHR = 0.52917721


def boys0(t):
    small = t < 1e-8
    ts = torch.where(small, torch.ones_like(t), t)
    return torch.where(small, 1.0 - t / 3.0, 0.5 * torch.sqrt(math.pi / ts) * torch.erf(torch.sqrt(ts)))


class Basis:
    def __init__(self):
        exps, coef, owner, atom = [], [], [], []
        for a in range(N_ATOMS):
            for e, c, s in H_BASIS:
                exps.append(e)
                coef.append(c * (2 * e / math.pi) ** 0.75)
                owner.append(a * N_SHELL + s)
                atom.append(a)
        self.exps, self.coef = torch.tensor(exps), torch.tensor(coef)
        self.owner, self.atom = torch.tensor(owner), torch.tensor(atom)
        self.n = N_ATOMS * N_SHELL
        # unique primitive pairs and unique contracted pairs
        self.pi, self.pj = torch.tril_indices(len(exps), len(exps))
        lo, hi = torch.tril_indices(self.n, self.n)
        index = torch.zeros(self.n, self.n, dtype=torch.long)
        index[lo, hi] = torch.arange(len(lo))
        index[hi, lo] = torch.arange(len(lo))
        self.pair_of = index
        pair = index[self.owner[self.pi], self.owner[self.pj]]
        c = self.coef[self.pi] * self.coef[self.pj]
        # off-diagonal primitive pairs inside one contracted diagonal pair occur twice
        twice = (self.pi != self.pj) & (self.owner[self.pi] == self.owner[self.pj])
        self.contract = torch.zeros(len(lo), len(self.pi))
        self.contract[pair, torch.arange(len(self.pi))] = torch.where(twice, 2 * c, c)


def pair_data(basis, xyz):
    a, b = basis.exps[basis.pi], basis.exps[basis.pj]
    A, B = xyz[basis.atom[basis.pi]], xyz[basis.atom[basis.pj]]
    p = a + b
    P = (a[:, None] * A + b[:, None] * B) / p[:, None]
    r2 = ((A - B) ** 2).sum(-1)
    return a, b, p, P, r2, torch.exp(-a * b / p * r2)


def one_electron(basis, pd, xyz):
    a, b, p, P, r2, K = pd
    mu = a * b / p
    s = (math.pi / p) ** 1.5 * K
    t = mu * (3 - 2 * mu * r2) * s
    d2 = ((P[:, None, :] - xyz[None]) ** 2).sum(-1)
    v = -(2 * math.pi / p[:, None] * K[:, None] * boys0(p[:, None] * d2)).sum(-1)
    return [(basis.contract @ x)[basis.pair_of] for x in (s, t + v)]


@torch.compile
def two_electron(p, P, K):
    """(pq|rs) for all pairs of primitive pairs, as a matrix."""
    d2 = ((P[:, None, :] - P[None, :, :]) ** 2).sum(-1)
    psum = p[:, None] + p[None, :]
    prod = p[:, None] * p[None, :]
    pref = 2 * math.pi**2.5 / (prod * torch.sqrt(psum))
    return pref * K[:, None] * K[None, :] * boys0(prod / psum * d2)


def scf(S, H, eri_pairs, pair_of, n_occ, D, e_nuc, tol=1e-8, max_iter=60):
    n = S.shape[0]
    ev, U = torch.linalg.eigh(S)
    X = U @ torch.diag(ev.clamp_min(1e-10).rsqrt()) @ U.T
    eri = eri_pairs[pair_of.reshape(-1)][:, pair_of.reshape(-1)].view(n, n, n, n)
    focks, errors, energy = [], [], 0.0
    for it in range(max_iter):
        J = torch.einsum("ijkl,kl->ij", eri, D)
        Kx = torch.einsum("ikjl,kl->ij", eri, D)
        Fk = H + 2 * J - Kx
        e_new = ((H + Fk) * D).sum().item() + e_nuc
        err = X.T @ (Fk @ D @ S - S @ D @ Fk) @ X
        if abs(e_new - energy) < tol and err.abs().max().item() < 1e-5:
            return e_new, D, it
        energy = e_new
        focks, errors = (focks + [Fk])[-6:], (errors + [err])[-6:]
        m = len(focks)
        B = -torch.ones(m + 1, m + 1)
        B[m, m] = 0
        E = torch.stack(errors).flatten(1)
        B[:m, :m] = E @ E.T
        rhs = torch.zeros(m + 1)
        rhs[m] = -1
        w = torch.linalg.lstsq(B, rhs[:, None], driver="gelsd").solution[:m, 0]
        Fk = torch.einsum("m,mij->ij", w, torch.stack(focks))
        _, C = torch.linalg.eigh(X.T @ Fk @ X)
        C = X @ C[:, :n_occ]
        D = C @ C.T
    return energy, D, max_iter


def main():
    basis = Basis()
    print(f"{N_ATOMS} H atoms, {basis.n} functions, {len(basis.pi)} primitive pairs")
    ang = 2 * math.pi * torch.arange(N_ATOMS) / N_ATOMS
    best, D, t0 = (0.0, None), None, time.time()
    for k, r in enumerate(torch.linspace(0.75, 1.35, 50).tolist()):
        radius = r / BOHR / (2 * math.sin(math.pi / N_ATOMS))
        xyz = radius * torch.stack([ang.cos(), ang.sin(), torch.zeros_like(ang)], -1)
        iu, ju = torch.triu_indices(N_ATOMS, N_ATOMS, 1)
        e_nuc = (1.0 / (xyz[iu] - xyz[ju]).norm(dim=-1)).sum().item()
        pd = pair_data(basis, xyz)
        S, H = one_electron(basis, pd, xyz)
        prim = two_electron(pd[2], pd[3], pd[5])
        pairs = basis.contract @ prim @ basis.contract.T
        e, D, iters = scf(
            S, H, pairs, basis.pair_of, N_ATOMS // 2, torch.zeros_like(S) if D is None else D, e_nuc
        )
        if e < best[0]:
            best = (e, r)
        if k % 5 == 0:
            print(f"R(HH) = {r:.3f} A  E = {e:.6f} Ha  ({iters} SCF iterations, {time.time() - t0:.1f} s)")
    print(f"minimum {best[0]:.6f} Ha at {best[1]:.3f} A")


if __name__ == "__main__":
    main()
