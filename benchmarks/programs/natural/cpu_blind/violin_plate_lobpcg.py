"""Lowest bending modes of violin top plates with different thickness graduations.

An orthotropic spruce plate (stiff along the grain) is discretised by finite differences, simply supported
on the rim; the lowest modes come from LOBPCG with a sine-transform preconditioner. Every plate in the
study has another graduation (thicker in the middle or thicker at the rim).
"""

import math

import torch
import torch.nn.functional as F

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)

NX, NY = 112, 80  # interior points along / across the grain
LX, LY = 0.35, 0.21  # m
E_L, E_R, G = 11.0e9, 0.75e9, 0.75e9
NU = 0.03
RHO = 410.0
N_MODES = 10
MAX_ITER = 40

HX, HY = LX / (NX + 1), LY / (NY + 1)


def sine_basis(n):
    k = torch.arange(1, n + 1)
    return math.sqrt(2.0 / (n + 1)) * torch.sin(math.pi * k[:, None] * k[None, :] / (n + 1))


SX, SY = sine_basis(NX), sine_basis(NY)
KX = (2 - 2 * torch.cos(math.pi * torch.arange(1, NX + 1) / (NX + 1))) / HX**2
KY = (2 - 2 * torch.cos(math.pi * torch.arange(1, NY + 1) / (NY + 1))) / HY**2


def curvature(w):
    p = F.pad(w, (1, 1, 1, 1))
    wxx = (p[:, 2:, 1:-1] - 2 * w + p[:, :-2, 1:-1]) / HX**2
    wyy = (p[:, 1:-1, 2:] - 2 * w + p[:, 1:-1, :-2]) / HY**2
    return wxx, wyy


def bending_operator(w, h):
    """w: (m, NX, NY) shapes, h: thickness; returns K w."""
    d = h**3 / 12.0
    wxx, wyy = curvature(w)
    coupling = NU * E_R + 2 * G
    mx = d * (E_L * wxx + coupling * wyy)
    my = d * (E_R * wyy + coupling * wxx)
    return curvature(mx)[0] + curvature(my)[1]


def preconditioner(r, symbol):
    s = SX @ r @ SY
    return SX @ (s / symbol) @ SY


@torch.compile
def lobpcg_step(X, AX, P, AP, lam, h, symbol):
    m = X.shape[0]
    mass = RHO * h
    R = AX - lam[:, None, None] * mass * X
    W = preconditioner(R, symbol)
    # keep W away from the span of X (mass inner product)
    proj = (W * mass).reshape(m, -1) @ X.reshape(m, -1).T
    W = W - (proj @ X.reshape(m, -1)).view_as(W)
    W = W / torch.sqrt((mass * W * W).sum(dim=(1, 2), keepdim=True))
    pn = torch.sqrt((mass * P * P).sum(dim=(1, 2), keepdim=True))
    P, AP = P / pn, AP / pn
    AW = bending_operator(W, h)

    S = torch.cat([X, W, P]).reshape(3 * m, -1)
    AS = torch.cat([AX, AW, AP]).reshape(3 * m, -1)
    gram = (S * mass.reshape(1, -1)) @ S.T
    stiff = S @ AS.T
    gram = 0.5 * (gram + gram.T) + 1e-11 * torch.eye(3 * m)
    stiff = 0.5 * (stiff + stiff.T)
    L = torch.linalg.cholesky(gram)
    C = torch.linalg.solve_triangular(L, stiff, upper=False)
    C = torch.linalg.solve_triangular(L, C.T, upper=False)
    e, V = torch.linalg.eigh(0.5 * (C + C.T))
    Y = torch.linalg.solve_triangular(L.T, V[:, :m], upper=True).T

    Xn = (Y @ S).view_as(X)
    AXn = (Y @ AS).view_as(X)
    Yp = torch.cat([torch.zeros_like(Y[:, :m]), Y[:, m:]], dim=1)
    Pn = (Yp @ S).view_as(X)
    APn = (Yp @ AS).view_as(X)
    lam = e[:m]
    res = AXn - lam[:, None, None] * mass * Xn
    rel = torch.sqrt((res * res / mass).sum(dim=(1, 2))) / lam
    return Xn, AXn, Pn, APn, lam, rel


def graduation(centre_mm, rim_mm, power):
    x = torch.linspace(-1, 1, NX)[:, None]
    y = torch.linspace(-1, 1, NY)[None, :]
    r = torch.clamp(torch.sqrt(x**2 + y**2), max=1.0)
    return (centre_mm + (rim_mm - centre_mm) * r**power) * 1e-3


def modes(h):
    d0 = (h**3).mean() / 12
    kx, ky = KX[:, None], KY[None, :]
    symbol = d0 * (E_L * kx**2 + 2 * (NU * E_R + 2 * G) * kx * ky + E_R * ky**2)
    X = torch.randn(N_MODES, NX, NY)
    P = torch.randn(N_MODES, NX, NY)
    X, P = preconditioner(X, symbol), preconditioner(P, symbol)
    # mass-orthonormal start
    g = (X * RHO * h).reshape(N_MODES, -1) @ X.reshape(N_MODES, -1).T
    X = torch.linalg.solve_triangular(torch.linalg.cholesky(g), X.reshape(N_MODES, -1), upper=False).view_as(
        X
    )
    AX, AP = bending_operator(X, h), bending_operator(P, h)
    lam = (X * AX).sum(dim=(1, 2))
    for it in range(MAX_ITER):
        X, AX, P, AP, lam, rel = lobpcg_step(X, AX, P, AP, lam, h, symbol)
        if rel[:8].max().item() < 1e-5:
            break
    return torch.sqrt(lam) / (2 * math.pi), it + 1, rel[:8].max().item()


if __name__ == "__main__":
    plans = [(c, r, p) for c in (2.6, 3.0, 3.4) for r in (2.2, 2.6, 3.0, 3.4) for p in (1.0, 2.0)]
    total = 0
    for c, r, p in plans:
        f, its, rel = modes(graduation(c, r, p))
        total += its
        if p == 2.0:
            print(
                f"centre {c} rim {r}: "
                + " ".join(f"{v:6.1f}" for v in f[:5].tolist())
                + f" Hz  ({its} its, rel {rel:.1e})"
            )
    print("LOBPCG iterations", total)
