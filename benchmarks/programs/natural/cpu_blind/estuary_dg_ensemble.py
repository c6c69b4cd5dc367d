"""Tidal bore running up an estuary: nodal discontinuous Galerkin for the 1-D shallow water equations,
an ensemble over Manning roughness, surge height and ramp time."""

import math

import torch

torch.manual_seed(11)
G = 9.81
K = 160  # elements
NP = 4  # cubic
B = 96  # ensemble members
LENGTH = 32_000.0
STEPS = 320

# Legendre-Gauss-Lobatto nodes of order 3
r = torch.tensor([-1.0, -math.sqrt(0.2), math.sqrt(0.2), 1.0], dtype=torch.float64)


def legendre(x, n):
    """Orthonormal Legendre polynomials 0..n-1 at x and their derivatives."""
    p = [torch.ones_like(x), x]
    dp = [torch.zeros_like(x), torch.ones_like(x)]
    for k in range(1, n - 1):
        p.append(((2 * k + 1) * x * p[k] - k * p[k - 1]) / (k + 1))
        dp.append(dp[k - 1] + (2 * k + 1) * p[k])
    scale = torch.sqrt((2 * torch.arange(n, dtype=x.dtype) + 1) / 2)
    return torch.stack(p, 1) * scale, torch.stack(dp, 1) * scale


V, DV = legendre(r, NP)
VINV = torch.linalg.inv(V)
DR = (DV @ VINV).float()
MINV = V @ V.T
LIFT = MINV[:, [0, -1]].float()  # columns of the inverse mass matrix at the two faces

DX = LENGTH / K
RX = 2.0 / DX
x = (torch.arange(K)[:, None] + 0.5) * DX + r.float() * DX / 2
BED = 12.0 * x / LENGTH * 0.6  # bed rises linearly upstream
BED_SLOPE = 12.0 * 0.6 / LENGTH
REST = 12.0

RK_A = [
    0.0,
    -567301805773 / 1357537059087,
    -2404267990393 / 2016746695238,
    -3550918686646 / 2091501179385,
    -1275806237668 / 842570457699,
]
RK_B = [
    1432997174477 / 9575080441755,
    5161836677717 / 13612068292357,
    1720146321549 / 2090206949498,
    3134564353537 / 4481467310338,
    2277821191437 / 14882151754819,
]
RK_C = [
    0.0,
    1432997174477 / 9575080441755,
    2526269341429 / 6820363962896,
    2006345519317 / 3224310063776,
    2802321613138 / 2924317926251,
]


def physical_flux(h, q):
    return q, q * q / h + 0.5 * G * h * h


def rusanov(hl, ql, hr, qr):
    fl0, fl1 = physical_flux(hl, ql)
    fr0, fr1 = physical_flux(hr, qr)
    c = torch.maximum(torch.abs(ql / hl) + torch.sqrt(G * hl), torch.abs(qr / hr) + torch.sqrt(G * hr))
    return 0.5 * (fl0 + fr0) - 0.5 * c * (hr - hl), 0.5 * (fl1 + fr1) - 0.5 * c * (qr - ql)


def rhs(h, q, t, par):
    manning, surge, ramp = par
    f0, f1 = physical_flux(h, q)

    # boundary ghosts: surge at the mouth, a reflecting weir at the head
    level = REST + surge * 0.5 * (1 - torch.cos(math.pi * torch.clamp(t / ramp, max=1.0)))
    hl = torch.cat([level[:, None], h[:, :, -1]], dim=1)
    ql = torch.cat([q[:, :1, 0], q[:, :, -1]], dim=1)
    hr = torch.cat([h[:, :, 0], h[:, -1:, -1]], dim=1)
    qr = torch.cat([q[:, :, 0], -q[:, -1:, -1]], dim=1)
    s0, s1 = rusanov(hl, ql, hr, qr)

    def divergence(f, s):
        vol = f @ DR.T
        jump = torch.stack([f[:, :, 0] - s[:, :-1], s[:, 1:] - f[:, :, -1]], dim=-1)
        return -RX * (vol + jump @ LIFT.T)

    friction = G * manning[:, None, None] ** 2 * q * torch.abs(q) / h ** (7.0 / 3.0)
    dh = divergence(f0, s0)
    dq = divergence(f1, s1) - G * h * BED_SLOPE - friction
    return dh, dq


@torch.compile
def step(h, q, t, dt, par):
    kh, kq = torch.zeros_like(h), torch.zeros_like(q)
    for a, b, c in zip(RK_A, RK_B, RK_C):
        dh, dq = rhs(h, q, t + c * dt, par)
        kh = a * kh + dt * dh
        kq = a * kq + dt * dq
        h = h + b * kh
        q = q + b * kq
    return h, q


def main():
    manning = 0.012 + 0.02 * torch.rand(B)
    surge = 0.3 + 1.5 * torch.rand(B)
    ramp = 120.0 + 400.0 * torch.rand(B)
    par = (manning, surge, ramp)
    h = (REST - BED).expand(B, K, NP).contiguous()
    q = torch.zeros_like(h)
    dt = torch.tensor(1.4)
    t = torch.tensor(0.0)
    arrival = torch.full((B,), float("nan"))
    station = int(0.1 * K)
    still = h[:, station, 0].clone()
    for n in range(STEPS):
        h, q = step(h, q, t, dt, par)
        t = t + dt
        up = h[:, station, 0] > still + 0.1
        arrival = torch.where(torch.isnan(arrival) & up, t, arrival)
        if (n + 1) % 80 == 0:
            print(
                f"t = {t.item():6.0f} s  deepest surge {(h[:, :, 0] + BED[:, 0] - REST).max():.3f} m  "
                f"fastest current {(q / h).abs().max():.2f} m/s"
            )
    reached = ~torch.isnan(arrival)
    print("members that reached the station:", int(reached.sum()), "of", B)
    print("finite:", bool(torch.isfinite(h).all()))


if __name__ == "__main__":
    main()
