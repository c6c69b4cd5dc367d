"""
2-D compressible Euler equations, cylindrical blast in a box.

Second order MUSCL reconstruction (minmod on primitive variables), HLLC
fluxes, SSP-RK2 in time, outflow boundaries.  Double precision: we compare
the shock radius with the self-similar solution and single precision has
bitten us before.

    python euler_blast_wave.py
    python euler_blast_wave.py --nx 256 --steps 20
"""

import argparse
import time

import torch
import torch.nn.functional as F

GAMMA = 1.4
NG = 2  # ghost cells


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--nx", type=int, default=1536)
    p.add_argument("--steps", type=int, default=80)
    p.add_argument("--cfl", type=float, default=0.4)
    p.add_argument("--report", type=int, default=20)
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


def cons_to_prim(u):
    rho = u[0].clamp_min(1e-8)
    vx = u[1] / rho
    vy = u[2] / rho
    p = (GAMMA - 1.0) * (u[3] - 0.5 * rho * (vx * vx + vy * vy))
    return torch.stack([rho, vx, vy, p.clamp_min(1e-10)])


def minmod(a, b):
    return 0.5 * (torch.sign(a) + torch.sign(b)) * torch.minimum(a.abs(), b.abs())


def euler_flux(w, normal):
    rho, vx, vy, p = w
    vn = vx if normal == 0 else vy
    e = p / (GAMMA - 1.0) + 0.5 * rho * (vx * vx + vy * vy)
    mass = rho * vn
    mx = mass * vx + (p if normal == 0 else 0.0)
    my = mass * vy + (p if normal == 1 else 0.0)
    return torch.stack([mass, mx, my, (e + p) * vn]), e


def hllc(wl, wr, normal):
    fl, el = euler_flux(wl, normal)
    fr, er = euler_flux(wr, normal)
    vl, vr = wl[1 + normal], wr[1 + normal]
    rl, pl = wl[0], wl[3]
    rr, pr = wr[0], wr[3]
    cl = torch.sqrt(GAMMA * pl / rl)
    cr = torch.sqrt(GAMMA * pr / rr)
    sl = torch.minimum(vl - cl, vr - cr)
    sr = torch.maximum(vl + cl, vr + cr)
    num = pr - pl + rl * vl * (sl - vl) - rr * vr * (sr - vr)
    den = rl * (sl - vl) - rr * (sr - vr)
    sm = num / den

    def star(w, e, s, vn):
        fac = w[0] * (s - vn) / (s - sm)
        vx = sm if normal == 0 else w[1]
        vy = sm if normal == 1 else w[2]
        es = fac * (e / w[0] + (sm - vn) * (sm + w[3] / (w[0] * (s - vn))))
        return torch.stack([fac, fac * vx, fac * vy, es])

    def cons(w, e):
        return torch.stack([w[0], w[0] * w[1], w[0] * w[2], e])

    fsl = fl + sl * (star(wl, el, sl, vl) - cons(wl, el))
    fsr = fr + sr * (star(wr, er, sr, vr) - cons(wr, er))
    out = torch.where(sm >= 0, fsl, fsr)
    out = torch.where(sl >= 0, fl, out)
    return torch.where(sr <= 0, fr, out)


def rhs(u, dx):
    up = F.pad(u, (NG, NG, NG, NG), mode="replicate")
    w = cons_to_prim(up)

    # x sweep (last dim)
    wx = w[:, NG:-NG, :]
    d = wx[:, :, 1:] - wx[:, :, :-1]
    s = minmod(d[:, :, 1:], d[:, :, :-1])
    c = wx[:, :, 1:-1]
    fx = hllc((c + 0.5 * s)[:, :, :-1], (c - 0.5 * s)[:, :, 1:], 0)

    # y sweep
    wy = w[:, :, NG:-NG]
    d = wy[:, 1:, :] - wy[:, :-1, :]
    s = minmod(d[:, 1:, :], d[:, :-1, :])
    c = wy[:, 1:-1, :]
    fy = hllc((c + 0.5 * s)[:, :-1, :], (c - 0.5 * s)[:, 1:, :], 1)

    return -(fx[:, :, 1:] - fx[:, :, :-1]) / dx - (fy[:, 1:, :] - fy[:, :-1, :]) / dx


@torch.compile(fullgraph=True)
def stable_dt(u, dx: float, cfl: float):
    w = cons_to_prim(u)
    c = torch.sqrt(GAMMA * w[3] / w[0])
    speed = (w[1].abs() + c) + (w[2].abs() + c)
    return cfl * dx / speed.max()


@torch.compile(fullgraph=True)
def euler_stage(u, dt, dx: float):
    return u + dt * rhs(u, dx)


def rk2_step(u, dt, dx):
    u1 = euler_stage(u, dt, dx)
    u2 = euler_stage(u1, dt, dx)
    return 0.5 * (u + u2)


def initial_state(n, device, seed):
    g = torch.Generator().manual_seed(seed)
    x = (torch.arange(n, dtype=torch.float64) + 0.5) / n - 0.5
    r = torch.sqrt(x[None, :] ** 2 + x[:, None] ** 2)
    rho = 1.0 + 0.02 * torch.rand(n, n, generator=g, dtype=torch.float64)
    p = torch.where(r < 0.1, 10.0, 0.1).to(torch.float64)
    zero = torch.zeros_like(rho)
    return torch.stack([rho, zero, zero, p / (GAMMA - 1.0)]).to(device)


def shock_radius(u):
    n = u.shape[-1]
    row = u[0, n // 2, n // 2 :]
    return (row.argmax().item() + 0.5) / n


def main():
    args = parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    u = initial_state(args.nx, device, args.seed)
    dx = 1.0 / args.nx
    mass0 = u[0].sum().item()
    t = torch.zeros((), dtype=torch.float64, device=device)

    # compile outside of the timed region
    dt = stable_dt(u, dx, args.cfl)
    rk2_step(u, dt, dx)
    if device == "cuda":
        torch.cuda.synchronize()

    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        dt = stable_dt(u, dx, args.cfl)
        u = rk2_step(u, dt, dx)
        t += dt
        if step % args.report == 0:
            print(f"step {step:4d}  t={t.item():.5f}  shock r={shock_radius(u):.4f}")
    if device == "cuda":
        torch.cuda.synchronize()
    wall = time.perf_counter() - start
    drift = (u[0].sum().item() - mass0) / mass0
    print(f"mass drift {drift:.2e}")
    print(f"{1e3 * wall / args.steps:.3f} ms/step  {args.nx**2 * args.steps / wall / 1e6:.1f} Mcell/s")


if __name__ == "__main__":
    main()
