"""Topology optimisation (SIMP) of a wall bracket under two load cases, with a matrix-free CG solver."""

import torch
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
NX, NY = 100, 50
VOLFRAC, PENAL, EMIN, RMIN = 0.4, 3.0, 1e-3, 2.5


def element_stiffness(nu=0.3):
    k = torch.tensor(
        [
            1 / 2 - nu / 6,
            1 / 8 + nu / 8,
            -1 / 4 - nu / 12,
            -1 / 8 + 3 * nu / 8,
            -1 / 4 + nu / 12,
            -1 / 8 - nu / 8,
            nu / 6,
            1 / 8 - 3 * nu / 8,
        ]
    )
    order = torch.tensor(
        [
            [0, 1, 2, 3, 4, 5, 6, 7],
            [1, 0, 7, 6, 5, 4, 3, 2],
            [2, 7, 0, 5, 6, 3, 4, 1],
            [3, 6, 5, 0, 7, 2, 1, 4],
            [4, 5, 6, 7, 0, 1, 2, 3],
            [5, 4, 3, 2, 1, 0, 7, 6],
            [6, 3, 4, 1, 2, 7, 0, 5],
            [7, 2, 1, 4, 3, 6, 5, 0],
        ]
    )
    return k[order] / (1 - nu**2)


def element_dofs():
    ex, ey = torch.meshgrid(torch.arange(NX), torch.arange(NY), indexing="ij")
    n1 = ((NY + 1) * ex + ey).flatten()
    n2 = n1 + NY + 1
    return torch.stack(
        [2 * n1 + 2, 2 * n1 + 3, 2 * n2 + 2, 2 * n2 + 3, 2 * n2, 2 * n2 + 1, 2 * n1, 2 * n1 + 1], 1
    )


KE = element_stiffness()
EDOF = element_dofs()
NDOF = 2 * (NX + 1) * (NY + 1)
FREE = torch.ones(NDOF)
FREE[: 2 * (NY + 1)] = 0.0  # clamped left edge


def apply_k(u, E):
    """K(E) u for a batch of displacement fields, element by element."""
    ue = u[:, EDOF]  # loads x elements x 8
    fe = (ue @ KE) * E[None, :, None]
    out = torch.zeros_like(u)
    out.index_add_(1, EDOF.flatten(), fe.flatten(1))
    return out * FREE


def diagonal(E):
    d = torch.zeros(NDOF).index_add_(0, EDOF.flatten(), (E[:, None] * KE.diagonal()).flatten())
    return torch.where(FREE > 0, d, 1.0)


@torch.compile
def cg_sweep(u, r, p, rz, E, inv_diag):
    """Ten preconditioned CG iterations; the residual is looked at only in between."""
    for _ in range(10):
        Ap = apply_k(p, E)
        alpha = rz / (p * Ap).sum(1, keepdim=True)
        u = u + alpha * p
        r = r - alpha * Ap
        z = r * inv_diag
        rz_new = (r * z).sum(1, keepdim=True)
        p = z + (rz_new / rz) * p
        rz = rz_new
    return u, r, p, rz


def solve(f, E, u0, tol=3e-3, max_sweeps=25):
    inv_diag = FREE / diagonal(E)
    r = f - apply_k(u0, E)
    z = r * inv_diag
    u, p, rz = u0, z, (r * z).sum(1, keepdim=True)
    limit = tol * f.norm(dim=1)
    for n in range(max_sweeps):
        u, r, p, rz = cg_sweep(u, r, p, rz, E, inv_diag)
        if (r.norm(dim=1) < limit).all():
            break
    return u, 10 * (n + 1)


def cone_filter():
    k = int(RMIN)
    g = torch.arange(-k, k + 1).double()
    w = (RMIN - torch.sqrt(g[:, None] ** 2 + g[None] ** 2)).clamp_min(0)[None, None]
    norm = F.conv2d(torch.ones(1, 1, NX, NY), w, padding=k)
    return lambda a: F.conv2d(a.view(1, 1, NX, NY), w, padding=k).div(norm).flatten()


def oc_update(x, dc, filt, move=0.15):
    """Optimality criteria with a bisection for the volume's multiplier."""
    lo, hi = 1e-9, 1e9
    while (hi - lo) / (hi + lo) > 1e-3:
        mid = (lo * hi) ** 0.5
        new = (x * torch.sqrt(-dc / mid)).clamp(min=0.0).clamp(x - move, x + move).clamp(1e-3, 1)
        if filt(new).mean() > VOLFRAC:
            lo = mid
        else:
            hi = mid
        if hi / lo < 1.001:
            break
    return new


def main():
    filt = cone_filter()
    f = torch.zeros(2, NDOF)
    tip = 2 * ((NY + 1) * NX + NY)
    f[0, tip + 1] = -1.0  # shelf load at the lower tip
    f[1, 2 * ((NY + 1) * NX + NY // 2)] = 0.7  # pull along the axis
    weight = torch.tensor([0.7, 0.3])
    x = torch.full((NX * NY,), VOLFRAC)
    u = torch.zeros(2, NDOF)
    total = 0
    for it in range(16):
        rho = filt(x)
        E = EMIN + rho**PENAL * (1 - EMIN)
        u, n = solve(f, E, u)
        total += n
        ue = u[:, EDOF]
        energy = torch.einsum("lei,ij,lej->le", ue, KE, ue)
        c = (weight @ (energy * E)).sum()
        dc = filt(-PENAL * (1 - EMIN) * rho ** (PENAL - 1) * (weight @ energy)).clamp_max(-1e-12)
        new = oc_update(x, dc, filt)
        change = (new - x).abs().max()
        x = new
        if it % 4 == 0 or it == 15:
            print(
                f"{it:3d}  compliance {c.item():9.3f}  volume {rho.mean():.3f}  change {change:.3f}  cg {n}"
            )
    grey = (4 * rho * (1 - rho)).mean()
    print(f"{total} CG iterations in all, greyness {grey:.3f}")


if __name__ == "__main__":
    main()
