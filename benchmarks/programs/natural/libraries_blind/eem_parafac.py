"""Non-negative PARAFAC of excitation-emission fluorescence matrices of lake water (TensorLy, PyTorch backend).

Scattering bands are treated as missing and re-imputed in every sweep (EM). The model is validated by split halves.
"""

import tensorly as tl
import torch
from tensorly import tenalg
from tensorly.cp_tensor import cp_to_tensor

tl.set_backend("pytorch")

EM = torch.linspace(300, 600, 151)
EX = torch.linspace(240, 450, 64)
RANK = 4
EPS = 1e-9


def band(axis, centre, width):
    return torch.exp(-0.5 * ((axis - centre) / width) ** 2)


def simulate(n):
    """Humic-like A and C, tryptophan- and tyrosine-like fluorophores with lognormal concentrations."""
    em = torch.stack([band(EM, 450, 45), band(EM, 420, 38), band(EM, 345, 22), band(EM, 308, 14)], 1)
    ex = torch.stack(
        [
            band(EX, 250, 18) + 0.3 * band(EX, 340, 25),
            band(EX, 320, 22) + 0.5 * band(EX, 245, 10),
            band(EX, 278, 12),
            band(EX, 272, 9),
        ],
        1,
    )
    conc = torch.exp(0.6 * torch.randn(n, RANK)) * torch.tensor([1.0, 0.8, 0.5, 0.3])
    clean = tl.cp_to_tensor((None, [conc, em, ex]))
    noisy = (clean + 0.01 * torch.randn_like(clean)).clamp(min=0)
    gap = EM[:, None] - EX[None, :]
    gap2 = EM[:, None] - 2 * EX[None, :]
    observed = (gap > 14) & (gap2.abs() > 14)
    return torch.where(observed, noisy, torch.zeros(())), observed.expand(n, -1, -1).contiguous(), conc


def update_mode(X, factors, mode):
    others = [f for i, f in enumerate(factors) if i != mode]
    kr = tenalg.khatri_rao(others)
    numerator = tl.dot(tl.unfold(X, mode), kr)
    gram = tl.ones((RANK, RANK))
    for f in others:
        gram = gram * tl.dot(tl.transpose(f), f)
    f = factors[mode]
    for _ in range(3):
        f = f * tl.clip(numerator, EPS) / (tl.dot(f, gram) + EPS)
    return f


@torch.compile
def sweep(data, observed, factors):
    model = cp_to_tensor((None, factors))
    X = tl.where(observed, data, model)
    factors = list(factors)
    for mode in range(3):
        factors[mode] = update_mode(X, factors, mode)
    # spectra to unit norm, the intensities into the scores
    for mode in (1, 2):
        scale = tl.norm(factors[mode], axis=0)
        factors[mode] = factors[mode] / scale
        factors[0] = factors[0] * scale
    residual = tl.where(observed, data - model, tl.zeros_like(data))
    return factors, tl.sum(residual**2)


def fit(data, observed, iters, seed, label):
    gen = torch.Generator().manual_seed(seed)
    factors = [torch.rand(s, RANK, generator=gen) + 0.1 for s in data.shape]
    total = (data**2).sum().item()
    for it in range(iters):
        factors, sse = sweep(data, observed, factors)
        if it % 25 == 24:
            print(f"  {label:>6} sweep {it + 1:3d}  explained {100 * (1 - sse.item() / total):.3f} %")
    return factors


def congruence(a, b):
    """Tucker congruence of matched components (emission times excitation)."""
    m = torch.ones(RANK, RANK)
    for mode in (1, 2):
        fa = a[mode] / a[mode].norm(dim=0)
        fb = b[mode] / b[mode].norm(dim=0)
        m = m * (fa.T @ fb)
    return m.max(1).values


def main():
    torch.manual_seed(8)
    data, observed, conc = simulate(90)
    print(f"EEM array {tuple(data.shape)}, {100 * observed.float().mean():.1f} % observed")
    full = fit(data, observed, 140, seed=0, label="full")
    halves = []
    for k in range(2):
        rows = slice(k, None, 2)
        halves.append(
            fit(data[rows].contiguous(), observed[rows].contiguous(), 100, seed=k + 1, label=f"half {k}")
        )
    print("split-half congruence", [round(v, 4) for v in congruence(*halves).tolist()])
    print("full-half congruence ", [round(v, 4) for v in congruence(full, halves[0]).tolist()])
    z = lambda x: (x - x.mean(0)) / x.std(0)
    corr = (z(full[0]).T @ z(conc)) / (len(conc) - 1)
    print("best correlation with true concentrations", [round(v, 3) for v in corr.max(0).values.tolist()])


if __name__ == "__main__":
    main()
