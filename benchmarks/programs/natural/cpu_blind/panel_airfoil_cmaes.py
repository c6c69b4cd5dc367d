"""Shape optimisation of an aerofoil: vortex panel method (Kuethe & Chow) for the flow, CMA-ES for the search."""

import math
import time

import torch

torch.manual_seed(17)
torch.set_default_dtype(torch.float64)

N_PANEL = 120
N_COEF = 5  # Bernstein coefficients of each side (CST)
LAMBDA = 24
N_GEN = 120
ALPHAS = torch.tensor([0.0, 2.0, 4.0]) * math.pi / 180
CL_TARGET = torch.tensor([0.35, 0.60, 0.84])


def cst_outline(coef):
    """(B, 2*N_COEF) to panel end points, clockwise from the trailing edge along the lower side."""
    half = N_PANEL // 2
    beta = torch.linspace(0, math.pi, half + 1)
    x = 0.5 * (1 - torch.cos(beta))
    n = N_COEF - 1
    basis = torch.stack([math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(N_COEF)])
    cls = torch.sqrt(x) * (1 - x)
    up = cls * (coef[:, :N_COEF] @ basis)
    low = -cls * (coef[:, N_COEF:] @ basis)
    xs = torch.cat([x.flip(0), x[1:]]).expand(coef.shape[0], -1)
    ys = torch.cat([low.flip(1), up[:, 1:]], dim=1)
    return xs, ys


@torch.compile
def panel_solve(X, Y, alphas):
    """Pressure coefficient at the panel centres (B, A, N) for all angles of attack."""
    xc, yc = 0.5 * (X[:, :-1] + X[:, 1:]), 0.5 * (Y[:, :-1] + Y[:, 1:])
    dx, dy = X[:, 1:] - X[:, :-1], Y[:, 1:] - Y[:, :-1]
    S = torch.sqrt(dx**2 + dy**2)
    th = torch.atan2(dy, dx)
    n = S.shape[1]
    ti, tj = th[:, :, None], th[:, None, :]
    rx = xc[:, :, None] - X[:, None, :-1]
    ry = yc[:, :, None] - Y[:, None, :-1]
    Sj = S[:, None, :]
    A = -rx * torch.cos(tj) - ry * torch.sin(tj)
    B = rx**2 + ry**2
    C = torch.sin(ti - tj)
    D = torch.cos(ti - tj)
    E = rx * torch.sin(tj) - ry * torch.cos(tj)
    Fl = torch.log(1 + (Sj**2 + 2 * A * Sj) / B)
    G = torch.atan2(E * Sj, B + A * Sj)
    P = rx * torch.sin(ti - 2 * tj) + ry * torch.cos(ti - 2 * tj)
    Q = rx * torch.cos(ti - 2 * tj) - ry * torch.sin(ti - 2 * tj)
    cn2 = D + 0.5 * Q * Fl / Sj - (A * C + D * E) * G / Sj
    cn1 = 0.5 * D * Fl + C * G - cn2
    ct2 = C + 0.5 * P * Fl / Sj + (A * D - C * E) * G / Sj
    ct1 = 0.5 * C * Fl - D * G - ct2
    eye = torch.eye(n, dtype=torch.bool)
    cn1 = torch.where(eye, -1.0, cn1)
    cn2 = torch.where(eye, 1.0, cn2)
    ct1 = torch.where(eye, 0.5 * math.pi, ct1)
    ct2 = torch.where(eye, 0.5 * math.pi, ct2)

    zero = torch.zeros_like(cn1[:, :, :1])
    an = torch.cat([cn1, zero], 2) + torch.cat([zero, cn2], 2)
    at = torch.cat([ct1, zero], 2) + torch.cat([zero, ct2], 2)
    kutta = torch.zeros(n + 1)
    kutta[0] = 1.0
    kutta[-1] = 1.0
    mat = torch.cat([an, kutta.expand(an.shape[0], 1, n + 1)], 1)
    rhs = torch.sin(th[:, :, None] - alphas)
    rhs = torch.cat([rhs, torch.zeros_like(rhs[:, :1])], 1)
    gamma = torch.linalg.solve(mat, rhs)
    vt = torch.cos(th[:, :, None] - alphas) + at @ gamma
    cp = 1 - vt**2
    cl = (4 * math.pi) * 0.5 * ((gamma[:, :-1] + gamma[:, 1:]) * S[:, :, None]).sum(1)
    return cp.transpose(1, 2), cl


def objective(coef):
    X, Y = cst_outline(coef)
    cp, cl = panel_solve(X, Y, ALPHAS)
    lift = ((cl - CL_TARGET) ** 2).sum(-1)
    suction = torch.relu(-cp.amin(-1) - 1.2).sum(-1)  # no strong suction peak
    thick = (Y[:, N_PANEL // 2 :] - Y[:, : N_PANEL // 2 + 1].flip(1)).amax(1)
    return 20 * lift + 0.2 * suction + 50 * torch.relu(0.11 - thick)


def cma_es(x0, sigma):
    d = len(x0)
    mu = LAMBDA // 2
    w = math.log(mu + 0.5) - torch.log(torch.arange(1, mu + 1).double())
    w = w / w.sum()
    mueff = (1 / (w**2).sum()).item()
    cs, cc = (mueff + 2) / (d + mueff + 5), 4 / (d + 4)
    c1 = 2 / ((d + 1.3) ** 2 + mueff)
    cmu = min(1 - c1, 2 * (mueff - 2 + 1 / mueff) / ((d + 2) ** 2 + mueff))
    damps = 1 + cs
    chi = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
    mean, C, ps, pc = x0.clone(), torch.eye(d), torch.zeros(d), torch.zeros(d)
    for gen in range(N_GEN):
        lam, B = torch.linalg.eigh(C)
        root = lam.clamp_min(1e-14).sqrt()
        y = torch.randn(LAMBDA, d) * root @ B.T
        f = objective(mean + sigma * y)
        best = torch.argsort(torch.nan_to_num(f, nan=1e6))[:mu]
        step = w @ y[best]
        mean = mean + sigma * step
        ps = (1 - cs) * ps + math.sqrt(cs * (2 - cs) * mueff) * (B @ ((B.T @ step) / root))
        pc = (1 - cc) * pc + math.sqrt(cc * (2 - cc) * mueff) * step
        C = (1 - c1 - cmu) * C + c1 * torch.outer(pc, pc) + cmu * (y[best].T * w) @ y[best]
        sigma *= math.exp((cs / damps) * (ps.norm().item() / chi - 1))
        if (gen + 1) % 40 == 0:
            print(f"generation {gen + 1:4d}  best {f[best[0]].item():.5f}  sigma {sigma:.2e}")
    return mean


def main():
    t0 = time.perf_counter()
    best = cma_es(torch.full((2 * N_COEF,), 0.17), 0.04)
    X, Y = cst_outline(best[None])
    _, cl = panel_solve(X, Y, ALPHAS)
    print("lift", [round(v, 3) for v in cl[0].tolist()], "wanted", CL_TARGET.tolist())
    print(f"{time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
