"""Sea-ice drift in a closed basin with the elastic-viscous-plastic rheology (Hunke & Dukowicz 1997).

C-grid-like layout kept simple: velocities at cell corners, stresses, thickness and concentration at cell centres.
A cyclone crosses the basin; every model step relaxes the stress with many elastic subcycles and then moves the ice with
upwind fluxes.  Prints the ice volume, the mean speed and how ridged the ice became.
"""

import torch

torch.manual_seed(3)
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_default_dtype(torch.float64)
if device == "cuda":
    NY, NX, STEPS, BLOCKS, SUB = 1536, 2048, 24, 12, 10
else:
    NY, NX, STEPS, BLOCKS, SUB = 40, 48, 4, 5, 3

DX = 4000.0
DT = 1800.0
DTE = DT / (BLOCKS * SUB)
T_ELASTIC = 0.36 * DT
P_STAR, C_STAR, E2 = 27.5e3, 20.0, 4.0
RHO_ICE, RHO_AIR, RHO_WATER = 900.0, 1.3, 1026.0
CD_AIR, CD_WATER = 1.2e-3, 5.5e-3
CORIOLIS = 1.46e-4
DELTA_MIN = 2e-9


def ddx(f):
    d = f[:, 1:] - f[:, :-1]
    return 0.5 * (d[1:] + d[:-1]) / DX


def ddy(f):
    d = f[1:] - f[:-1]
    return 0.5 * (d[:, 1:] + d[:, :-1]) / DX


def to_corner(f):
    return 0.25 * (f[1:, 1:] + f[1:, :-1] + f[:-1, 1:] + f[:-1, :-1])


@torch.compile
def evp_block(u, v, s1, s2, s12, strength, mass, conc, wind_x, wind_y, ocean_u, ocean_v, land):
    for _ in range(SUB):
        e11, e22 = ddx(u), ddy(v)
        e12 = 0.5 * (ddy(u) + ddx(v))
        div, tension = e11 + e22, e11 - e22
        delta = torch.sqrt(div**2 + (tension**2 + 4 * e12**2) / E2)
        delta = torch.clamp(delta, min=DELTA_MIN)
        zeta = strength / (2 * delta)
        denom1 = 1.0 / (1.0 + 0.5 * DTE / T_ELASTIC)
        denom2 = 1.0 / (1.0 + 0.5 * DTE / T_ELASTIC * E2)
        s1 = (s1 + DTE / T_ELASTIC * (zeta * div - 0.5 * strength)) * denom1
        s2 = (s2 + DTE / T_ELASTIC * zeta * tension) * denom2
        s12 = (s12 + DTE / T_ELASTIC * zeta * e12) * denom2
        s11, s22 = 0.5 * (s1 + s2), 0.5 * (s1 - s2)

        force_x = ddx(s11) + ddy(s12)
        force_y = ddx(s12) + ddy(s22)
        ui, vi = u[1:-1, 1:-1], v[1:-1, 1:-1]
        du, dv = ocean_u - ui, ocean_v - vi
        drag = conc * RHO_WATER * CD_WATER * torch.sqrt(du**2 + dv**2)
        a = mass / DTE + drag
        b = mass * CORIOLIS
        rhs_x = mass / DTE * ui + force_x + conc * wind_x + drag * ocean_u - b * ocean_v
        rhs_y = mass / DTE * vi + force_y + conc * wind_y + drag * ocean_v + b * ocean_u
        det = a * a + b * b
        u = u.clone()
        v = v.clone()
        u[1:-1, 1:-1] = (a * rhs_x + b * rhs_y) / det
        v[1:-1, 1:-1] = (a * rhs_y - b * rhs_x) / det
        u[land] = 0.0
        v[land] = 0.0
    return u, v, s1, s2, s12


def advect(f, u, v):
    ux = 0.5 * (u[1:, 1:-1] + u[:-1, 1:-1])
    vy = 0.5 * (v[1:-1, 1:] + v[1:-1, :-1])
    fx = torch.where(ux > 0, ux * f[:, :-1], ux * f[:, 1:])
    fy = torch.where(vy > 0, vy * f[:-1], vy * f[1:])
    out = f.clone()
    out[:, :-1] -= fx * DT / DX
    out[:, 1:] += fx * DT / DX
    out[:-1] -= fy * DT / DX
    out[1:] += fy * DT / DX
    return out


class Basin:
    def __init__(self):
        y = torch.linspace(0, 1, NY + 1, device=device)[:, None]
        x = torch.linspace(0, 1, NX + 1, device=device)[None, :]
        self.x, self.y = x, y
        self.u = torch.zeros(NY + 1, NX + 1, device=device)
        self.v = torch.zeros_like(self.u)
        self.s1, self.s2, self.s12 = (torch.zeros(NY, NX, device=device) for _ in range(3))
        self.h = 1.0 + 0.3 * torch.rand(NY, NX, device=device)
        self.a = torch.full((NY, NX), 0.97, device=device) - 0.1 * torch.rand(NY, NX, device=device)
        island = ((x - 0.62) ** 2 + (y - 0.4) ** 2) < 0.05**2
        cape = (x < 0.2 + 0.03 * torch.sin(40 * y)) & (y > 0.7)
        self.land = island | cape
        self.land[0], self.land[-1], self.land[:, 0], self.land[:, -1] = True, True, True, True
        self.ocean_u = (0.05 * (2 * y - 1) * torch.ones_like(x))[1:-1, 1:-1].contiguous()
        self.ocean_v = (0.05 * (1 - 2 * x) * torch.ones_like(y))[1:-1, 1:-1].contiguous()

    def wind(self, step):
        cx, cy = 0.2 + 0.5 * step / STEPS, 0.5
        rx, ry = self.x - cx, self.y - cy
        swirl = 60 * torch.exp(-(rx**2 + ry**2) / 0.08)
        wx, wy = -ry * swirl, rx * swirl
        speed = torch.sqrt(wx**2 + wy**2)
        return (RHO_AIR * CD_AIR * speed * wx)[1:-1, 1:-1], (RHO_AIR * CD_AIR * speed * wy)[1:-1, 1:-1]

    def step(self, n):
        strength = P_STAR * self.h * torch.exp(-C_STAR * (1 - self.a))
        mass = RHO_ICE * to_corner(self.h).clamp(min=0.01)
        conc = to_corner(self.a)
        tx, ty = self.wind(n)
        for _ in range(BLOCKS):
            self.u, self.v, self.s1, self.s2, self.s12 = evp_block(
                self.u,
                self.v,
                self.s1,
                self.s2,
                self.s12,
                strength,
                mass,
                conc,
                tx,
                ty,
                self.ocean_u,
                self.ocean_v,
                self.land,
            )
        self.h = advect(self.h, self.u, self.v)
        self.a = advect(self.a, self.u, self.v).clamp(0.0, 1.0)


def main():
    basin = Basin()
    volume = basin.h.sum().item()
    for n in range(STEPS):
        basin.step(n)
        if n % 8 == 0:
            print(f"step {n:3d} max speed {torch.hypot(basin.u, basin.v).max().item():.3f} m/s")
    print(f"volume drift {basin.h.sum().item() / volume - 1:.2e}")
    print(
        f"mean speed {torch.hypot(basin.u, basin.v).mean().item():.4f} m/s, thickest {basin.h.max().item():.2f} m, "
        f"open water {(basin.a < 0.8).double().mean().item():.4f}"
    )


if __name__ == "__main__":
    main()
