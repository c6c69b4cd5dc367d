"""Solvent screening with COSMO-SAC.

From sigma profiles (screening-charge histograms, 51 bins) of a few hundred solvent pairs the segment activity
coefficients are solved by damped successive substitution over a composition grid, then combined with the
Staverman-Guggenheim term. Pairs are scanned over temperature for azeotropes at the bubble pressure.
"""

import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(2002)

N_SEG = 51
R = 0.001987204  # kcal/mol/K
A_EFF = 7.5  # A^2
SIGMA = torch.linspace(-0.025, 0.025, N_SEG)


def sigma_profiles(n):
    """Random but plausible molecules: apolar core with donor and acceptor shoulders, area in A^2."""
    area = 90 + 110 * torch.rand(n)
    width = 0.003 + 0.002 * torch.rand(n)
    core = torch.exp(-0.5 * (SIGMA / width[:, None]) ** 2)
    donor = 0.25 * torch.rand(n, 1) ** 2 * torch.exp(-0.5 * ((SIGMA + 0.013) / 0.002) ** 2)
    acceptor = 0.25 * torch.rand(n, 1) ** 2 * torch.exp(-0.5 * ((SIGMA - 0.013) / 0.002) ** 2)
    p = core + donor + acceptor
    p = p / p.sum(1, keepdim=True) * area[:, None]
    volume = area * (0.85 + 0.15 * torch.rand(n))
    return p, area, volume


def exchange_energy():
    """Misfit + hydrogen bonding, kcal/mol."""
    sm, sn = SIGMA[:, None], SIGMA[None, :]
    misfit = 16466.72 / 2 * (sm + sn) ** 2
    acc = torch.maximum(sm, sn)
    don = torch.minimum(sm, sn)
    hb = 85580.0 * (acc - 0.0084).clamp(min=0) * (don + 0.0084).clamp(max=0)
    return misfit + hb


@torch.compile
def substitute(gamma, p, boltz):
    """A few damped substitutions of Gamma_m = 1 / sum_n p_n Gamma_n exp(-dW_mn / RT)."""
    for _ in range(4):
        new = 1.0 / torch.einsum("mn,bn->bm", boltz, p * gamma)
        gamma_old = gamma
        gamma = 0.5 * (gamma + new)
    err = ((gamma - gamma_old) / gamma_old).abs().max()
    return gamma, err


def segment_gamma(p, boltz, guess=None, tol=1e-6, max_iter=400):
    gamma = torch.ones_like(p) if guess is None else guess
    it = 0
    while it < max_iter:
        gamma, err = substitute(gamma, p, boltz)
        it += 4
        if err.item() < tol:
            break
    return gamma, it


@torch.compile
def ln_gamma(x, prof, area, volume, g_mix, g_pure):
    """Activity coefficients (residual + combinatorial) of both components over the composition grid."""
    residual = (prof[:, None] / A_EFF * (g_mix.log()[..., None, :] - g_pure.log()[:, None])).sum(-1)
    r = volume / 66.69
    q = area / 79.53
    theta = x * q[:, None] / (x * q[:, None]).sum(-1, keepdim=True)
    phi = x * r[:, None] / (x * r[:, None]).sum(-1, keepdim=True)
    l = 5 * (r - q) - (r - 1)
    comb = (
        (phi / x).log()
        + 5 * q[:, None] * (theta / phi).log()
        + l[:, None]
        - phi / x * (x * l[:, None]).sum(-1, keepdim=True)
    )
    return residual + comb


def vapour_pressure(tb, t):
    """Trouton's rule and Clausius-Clapeyron, bar."""
    return torch.exp(88.0 / 8.314 * (1 - tb / t) * 1.0)


def main():
    n_solvents, n_x = 26, 21
    prof, area, volume = sigma_profiles(n_solvents)
    tb = 320 + 0.35 * area + 15 * torch.randn(n_solvents)
    pairs = torch.combinations(torch.arange(n_solvents), 2)
    x1 = torch.linspace(0.01, 0.99, n_x)
    x = torch.stack([x1, 1 - x1], -1)  # (n_x, 2)
    prof2, area2, vol2 = prof[pairs], area[pairs], volume[pairs]  # (P, 2, 51)
    mix = torch.einsum("xc,pcs->pxs", x, prof2)
    p_mix = mix / mix.sum(-1, keepdim=True)
    p_pure = prof2 / area2[..., None]
    dw = exchange_energy()

    iters, azeo, largest = [], [], 0.0
    g_mix = g_pure = None
    for t in torch.linspace(298.15, 373.15, 16).tolist():
        boltz = torch.exp(-dw / (R * t))
        g_mix, it = segment_gamma(p_mix.reshape(-1, N_SEG), boltz, g_mix)
        g_pure, _ = segment_gamma(p_pure.reshape(-1, N_SEG), boltz, g_pure)
        iters.append(it)
        lng = ln_gamma(x, prof2, area2, vol2, g_mix.reshape(p_mix.shape), g_pure.reshape(p_pure.shape))
        psat = vapour_pressure(tb[pairs], t)
        partial = x * lng.exp() * psat[:, None]
        y1 = partial[..., 0] / partial.sum(-1)
        rel = y1 - x1
        azeo.append(((rel[:, 1:] * rel[:, :-1]) < 0).any(1))
        largest = max(largest, lng.max().item())
    azeo = torch.stack(azeo)
    print(f"{len(pairs)} pairs x {n_x} compositions; substitutions per temperature {iters[0]} .. {iters[-1]}")
    print(f"azeotropic pairs: {int(azeo[0].sum())} at 25 C, {int(azeo[-1].sum())} at 100 C")
    print(f"largest ln gamma {largest:.3f}")


if __name__ == "__main__":
    main()
