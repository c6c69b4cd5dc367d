"""Kessler warm-rain microphysics on a three-dimensional grid in a prescribed updraught: saturation adjustment,
autoconversion, accretion, rain evaporation and sedimentation, with accumulated surface rain."""

import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
NZ, NY, NX = (16, 8, 8) if SMOKE else (80, 512, 512)
STEPS = 20 if SMOKE else 1400
DZ, DT = 200.0, 4.0
G, CP, RD, LV, P0 = 9.81, 1004.0, 287.0, 2.5e6, 1.0e5


def base_state():
    """A conditionally unstable sounding (Weisman and Klemp)."""
    z = (torch.arange(NZ, device=DEV) + 0.5) * DZ
    ztr, ttr, thtr, th0 = 12000.0, 213.0, 343.0, 300.0
    theta = torch.where(
        z <= ztr, th0 + (thtr - th0) * (z / ztr) ** 1.25, thtr * torch.exp(G * (z - ztr) / (CP * ttr))
    )
    rh = torch.where(z <= ztr, 1 - 0.75 * (z / ztr) ** 1.25, torch.full_like(z, 0.25))
    exner = 1 - torch.cumsum(G * DZ / (CP * theta), 0)
    exner = exner.clamp_min(0.3)
    pres = P0 * exner ** (CP / RD)
    temp = theta * exner
    rho = pres / (RD * temp)
    qs = 380.0 / pres * torch.exp(17.27 * (temp - 273.16) / (temp - 35.86))
    qv = torch.minimum(rh * qs, torch.tensor(0.014, device=DEV))
    col = lambda a: a.view(NZ, 1, 1)
    return col(z), col(theta), col(exner), col(pres), col(rho), col(qv)


def thermals(z, gen):
    """A field of updraughts of different strength and size; w vanishes at the ground and the top."""
    y, x = torch.meshgrid(
        torch.linspace(0, 1, NY, device=DEV), torch.linspace(0, 1, NX, device=DEV), indexing="ij"
    )
    plan = torch.zeros(NY, NX, device=DEV)
    for cy, cx, size, amp in torch.rand(40, 4, generator=gen).tolist():
        plan += (2 + 8 * amp) * torch.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (0.01 + 0.04 * size) ** 2)
    top = NZ * DZ
    return plan.clamp_max(12.0) * torch.sin(torch.pi * z / top)


def lift(q, w, dt):
    """First-order upwind vertical advection by rising air; inflow from below, nothing through the ground."""
    below = torch.cat([q[:1], q[:-1]])
    above = torch.cat([q[1:], q[-1:]])
    return q - dt / DZ * (w.clamp_min(0) * (q - below) + w.clamp_max(0) * (above - q))


@torch.compile
def step(theta, qv, qc, qr, rain, w, exner, pres, rho):
    theta, qv, qc, qr = (lift(q, w, DT) for q in (theta, qv, qc, qr))

    # sedimentation of rain
    rhoqr = 1e-3 * rho * qr.clamp_min(0)
    speed = 36.34 * rhoqr.clamp_min(1e-12) ** 0.1364 * torch.sqrt(rho[:1] / rho)
    speed = torch.where(qr > 1e-9, speed.clamp_max(0.9 * DZ / DT), 0.0)
    flux = rho * qr * speed
    flux_above = torch.cat([flux[1:], torch.zeros_like(flux[:1])])
    qr = qr + DT / (rho * DZ) * (flux_above - flux)
    rain = rain + DT * flux[0]

    # autoconversion and accretion
    qc, qr = qc.clamp_min(0), qr.clamp_min(0)
    rate = 1e-3 * (qc - 1e-3).clamp_min(0) + 2.2 * qc * qr.clamp_min(1e-12) ** 0.875
    grow = torch.minimum(DT * rate, qc)
    qc, qr = qc - grow, qr + grow

    # saturation adjustment
    temp = theta * exner
    qs = 380.0 / pres * torch.exp(17.27 * (temp - 273.16) / (temp - 35.86))
    gamma = 1 + qs * 4097.9983 * LV / (CP * (temp - 35.86) ** 2)
    cond = torch.maximum((qv - qs) / gamma, -qc)
    qv, qc = qv - cond, qc + cond
    theta = theta + LV / (CP * exner) * cond

    # evaporation of rain into unsaturated air
    rr = 1e-3 * rho * qr
    vent = 1.6 + 124.9 * rr.clamp_min(1e-12) ** 0.2046
    deficit = (1 - qv / qs).clamp_min(0)
    evap = deficit * vent * rr.clamp_min(1e-12) ** 0.525 / (rho * (2.55e8 / (pres * qs) + 5.4e5)) * 1e3
    evap = torch.minimum(torch.minimum(DT * evap, qr), (qs - qv).clamp_min(0))
    qv, qr = qv + evap, qr - evap
    theta = theta - LV / (CP * exner) * evap
    return theta, qv, qc, qr, rain


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(9)
    z, theta0, exner, pres, rho, qv0 = base_state()
    w = thermals(z, gen)
    theta = theta0.expand(NZ, NY, NX).contiguous()
    qv = (qv0 * (1 + 0.02 * torch.randn(NZ, NY, NX, device=DEV))).contiguous()
    qc, qr = torch.zeros_like(theta), torch.zeros_like(theta)
    rain = torch.zeros(NY, NX, device=DEV)
    print(f"{NZ}x{NY}x{NX} cells, updraughts to {w.max().item():.1f} m/s")

    start = time.perf_counter()
    with torch.no_grad():
        for n in range(STEPS):
            theta, qv, qc, qr, rain = step(theta, qv, qc, qr, rain, w, exner, pres, rho)
            if (n + 1) % (STEPS // 8 or 1) == 0:
                print(
                    f"t {(n + 1) * DT:6.0f} s  qc max {1e3 * qc.max().item():.2f} g/kg  qr max {1e3 * qr.max().item():.2f} g/kg"
                    f"  rain mean {rain.mean().item():.3f} max {rain.max().item():.2f} mm"
                    f"  {1e3 * (time.perf_counter() - start) / (n + 1):.2f} ms per step"
                )
    assert torch.isfinite(theta).all() and qv.min().item() > -1e-6


if __name__ == "__main__":
    main()
