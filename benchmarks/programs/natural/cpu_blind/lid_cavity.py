"""Solves the flow in a cavity with a moving lid, with the classic pressure iteration and walls set row by row."""

import torch

NX = NY = 256
DX = DY = 2.0 / (NX - 1)
RHO, NU, DT = 1.0, 0.1, 2e-6


def pressure(p, b, iterations=10):
    for _ in range(iterations):
        pn = p.clone()
        p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, :-2]) * DY**2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * DX**2) / (
            2 * (DX**2 + DY**2)
        ) - DX**2 * DY**2 / (2 * (DX**2 + DY**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0
    return p


def cavity(u, v, p):
    b = torch.zeros_like(p)
    ux = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * DX)
    vy = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * DY)
    uy = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * DY)
    vx = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * DX)
    b[1:-1, 1:-1] = RHO * ((ux + vy) / DT - ux**2 - 2 * uy * vx - vy**2)
    p = pressure(p, b)
    un, vn = u.clone(), v.clone()
    for w, wn, grad in (
        (u, un, (p[1:-1, 2:] - p[1:-1, :-2]) / DX),
        (v, vn, (p[2:, 1:-1] - p[:-2, 1:-1]) / DY),
    ):
        c = wn[1:-1, 1:-1]
        w[1:-1, 1:-1] = (
            c
            - un[1:-1, 1:-1] * DT / DX * (c - wn[1:-1, :-2])
            - vn[1:-1, 1:-1] * DT / DY * (c - wn[:-2, 1:-1])
            - DT / (2 * RHO) * grad
            + NU * DT / DX**2 * (wn[1:-1, 2:] - 2 * c + wn[1:-1, :-2])
            + NU * DT / DY**2 * (wn[2:, 1:-1] - 2 * c + wn[:-2, 1:-1])
        )
        w[0, :], w[:, 0], w[:, -1], w[-1, :] = 0, 0, 0, 0
    u[-1, :] = 1
    return u, v, p


u, v, p = torch.zeros(NY, NX), torch.zeros(NY, NX), torch.zeros(NY, NX)
advance = torch.compile(cavity)
with torch.no_grad():
    for _ in range(40):
        u, v, p = advance(u, v, p)
print("kinetic energy", (u**2 + v**2).mean().item(), "pressure", p.abs().max().item())
