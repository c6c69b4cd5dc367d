"""Linear unmixing of an airborne hyperspectral scene with constrained NMF.

The cube is factorised into endmember spectra and per-pixel abundances with
multiplicative updates; abundances get a sum-to-one pull and a light sparsity
penalty.  The cube stays in its delivered 16-bit reflectance format to keep
memory low when several flight lines are open.
"""

import argparse
import time

import torch

REFL_SCALE = 1e-4  # stored digital number -> reflectance
EPS = 1e-9


def synthetic_scene(bands, side, members, gen):
    """Smooth endmember spectra, blocky abundance maps, sensor noise."""
    wl = torch.linspace(0, 1, bands)
    spectra = []
    for _ in range(members):
        centre = torch.rand(5, 1, generator=gen)
        width = 0.05 + 0.25 * torch.rand(5, 1, generator=gen)
        height = torch.rand(5, 1, generator=gen)
        bumps = (height * torch.exp(-(((wl - centre) / width) ** 2))).sum(0)
        spectra.append(0.05 + 0.6 * bumps / bumps.max())
    E = torch.stack(spectra, dim=1)  # (bands, members)

    coarse = torch.rand(1, members, side // 16, side // 16, generator=gen) ** 4
    maps = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")
    A = maps.view(members, -1)
    A = A / A.sum(0, keepdim=True)  # (members, pixels)
    X = E @ A
    X = X + 0.004 * torch.randn(X.shape, generator=gen)
    X[torch.rand(bands, generator=gen) < 0.03] = 0  # dead bands
    dn = (X / REFL_SCALE).round().clamp(0, 32767).to(torch.int16)
    return dn, E, A


def nmf_update(dn, E, A, good, sparsity, unity):
    """One multiplicative update of abundances and spectra, returns the RMSE."""
    X = dn.float() * REFL_SCALE
    X = X * good[:, None]

    # abundances; the sum-to-one constraint enters as one more (weighted) band
    R = (E @ A) * good[:, None]
    num = E.T @ X + unity
    den = E.T @ R + unity * A.sum(dim=0, keepdim=True) + sparsity
    A = A * num / (den + EPS)

    # endmember spectra
    R = (E @ A) * good[:, None]
    num = X @ A.T
    den = R @ A.T
    E = E * num / (den + EPS)

    # keep the spectra in physical range, push the scale into the abundances
    peak = E.max(dim=0).values.clamp(min=EPS)
    factor = torch.where(peak > 1.0, peak, torch.ones_like(peak))
    E = E / factor
    A = A * factor[:, None]

    resid = X - E @ A * good[:, None]
    rmse = torch.sqrt((resid**2).sum() / (good.sum() * X.shape[1]))
    return E, A, rmse


def spectral_angle(a, b):
    a = a / a.norm(dim=0, keepdim=True)
    b = b / b.norm(dim=0, keepdim=True)
    return torch.acos((a.T @ b).clamp(-1, 1))


def pick_pure_pixels(dn, good, members):
    """Successive projections: start spectra from the most extreme pixels."""
    X = dn.float() * REFL_SCALE * good[:, None]
    P = X.clone()
    chosen = []
    for _ in range(members):
        j = int(P.pow(2).sum(0).argmax())
        chosen.append(j)
        u = P[:, j : j + 1] / P[:, j].norm()
        P = P - u @ (u.T @ P)
    return X[:, chosen].clamp(min=1e-3)


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bands", type=int, default=180)
    ap.add_argument("--side", type=int, default=160)
    ap.add_argument("--members", type=int, default=9)
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--sparsity", type=float, default=1e-3)
    ap.add_argument("--unity", type=float, default=0.2)
    ap.add_argument("--tol", type=float, default=1e-7)
    ap.add_argument("--seed", type=int, default=9)
    args = ap.parse_args()
    gen = torch.Generator().manual_seed(args.seed)

    dn, E_true, A_true = synthetic_scene(args.bands, args.side, args.members, gen)
    good = (dn.float().mean(dim=1) > 1).float()
    E0 = pick_pure_pixels(dn, good, args.members)
    A0 = torch.full((args.members, dn.shape[1]), 1.0 / args.members)
    print(f"cube {args.side}x{args.side}x{args.bands}, {int(good.sum())} usable bands")

    update = torch.compile(nmf_update)
    E, A = E0, A0
    for _ in range(2):
        E, A, rmse = update(dn, E, A, good, args.sparsity, args.unity)

    t0 = time.perf_counter()
    last = float("inf")
    for it in range(1, args.iters + 1):
        E, A, rmse = update(dn, E, A, good, args.sparsity, args.unity)
        value = rmse.item()
        if it % 20 == 0:
            print(f"  iteration {it:3d}  RMSE {value:.5f}")
        if abs(last - value) < args.tol:
            break
        last = value
    dt = time.perf_counter() - t0

    used = good.bool()
    angle = torch.rad2deg(spectral_angle(E[used], E_true[used]))
    best, match = angle.min(dim=0)
    cover = (A / A.sum(0, keepdim=True)).mean(dim=1)[match]
    print("spectral angle per endmember (deg): " + " ".join(f"{v:.1f}" for v in best.tolist()))
    print(
        "cover found / true: "
        + " ".join(f"{c:.2f}/{t:.2f}" for c, t in zip(cover.tolist(), A_true.mean(dim=1).tolist()))
    )
    print(f"{it} iterations in {dt:.2f} s ({1e3 * dt / it:.1f} ms per iteration)")


if __name__ == "__main__":
    main()
