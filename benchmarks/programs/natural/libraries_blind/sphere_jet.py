"""Ensemble of barotropically unstable mid-latitude jets on the sphere (Galewsky-like), spectral method.

Nondivergent barotropic vorticity equation, torch-harmonics transforms, SSP-RK3 in time with an
implicit hyperdiffusion filter.  We look at how fast members with different perturbations diverge.
"""

import math
import time

import torch
import torch.nn as nn
import torch_harmonics as th

torch.manual_seed(0)


class BarotropicSolver(nn.Module):
    def __init__(self, nlat=96, nlon=192, dt=600.0, radius=6.37122e6, omega=7.292e-5):
        super().__init__()
        self.nlat, self.nlon, self.dt, self.radius = nlat, nlon, dt, radius
        self.lmax = nlat * 2 // 3
        kw = dict(lmax=self.lmax, mmax=self.lmax, grid="legendre-gauss", csphase=False)
        self.sht = th.RealSHT(nlat, nlon, **kw)
        self.isht = th.InverseRealSHT(nlat, nlon, **kw)
        self.vsht = th.RealVectorSHT(nlat, nlon, **kw)
        self.ivsht = th.InverseRealVectorSHT(nlat, nlon, **kw)
        cost, _ = th.quadrature.legendre_gauss_weights(nlat, -1, 1)
        lats = torch.arcsin(torch.as_tensor(cost)).flip(0).float()  # north to south
        lons = torch.linspace(0, 2 * math.pi, nlon + 1)[:nlon]
        self.register_buffer("lats", lats)
        self.register_buffer("lons", lons)
        self.register_buffer(
            "coriolis", (2 * omega * torch.sin(lats)).unsqueeze(-1).expand(nlat, nlon).contiguous()
        )
        l = torch.arange(self.lmax, dtype=torch.float32).unsqueeze(-1)
        lap = -l * (l + 1) / radius**2
        inv = torch.where(lap != 0, 1 / lap, torch.zeros_like(lap))
        self.register_buffer("laplacian", lap)
        self.register_buffer("inv_laplacian", inv)
        self.register_buffer("filter", torch.exp(-dt / 7200.0 * (lap / lap.min()) ** 4))

    def velocity(self, zeta_lm):
        psi = self.inv_laplacian * zeta_lm
        coeff = torch.stack([torch.zeros_like(psi), psi], dim=-3) / self.radius  # (div, curl) potentials
        return self.ivsht(coeff)

    def tendency(self, zeta_lm):
        uv = self.velocity(zeta_lm)
        absvort = self.isht(zeta_lm) + self.coriolis
        flux = uv * absvort.unsqueeze(-3)
        # spheroidal part of the flux gives its divergence
        div = self.laplacian * self.vsht(flux)[..., 0, :, :] * self.radius
        return -div

    def step(self, z):
        dt = self.dt
        z1 = z + dt * self.tendency(z)
        z2 = 0.75 * z + 0.25 * (z1 + dt * self.tendency(z1))
        z3 = z / 3 + 2 / 3 * (z2 + dt * self.tendency(z2))
        return z3 * self.filter

    def jet(self, members):
        lat0, lat1, umax = math.pi / 7, math.pi / 2 - math.pi / 7, 80.0
        phi = self.lats
        en = math.exp(-4 / (lat1 - lat0) ** 2)
        inside = (phi > lat0) & (phi < lat1)
        arg = torch.where(inside, (phi - lat0) * (phi - lat1), torch.full_like(phi, -1.0))
        u = torch.where(inside, umax / en * torch.exp(1 / arg), torch.zeros_like(phi))
        ucos = u * torch.cos(phi)
        zeta = -torch.gradient(ucos, spacing=(phi,))[0] / (self.radius * torch.cos(phi))
        field = zeta.unsqueeze(-1).expand(members, self.nlat, self.nlon).clone()
        centre = torch.linspace(0, 2 * math.pi, members + 1)[:members].view(-1, 1, 1)
        dlon = torch.remainder(self.lons - centre + math.pi, 2 * math.pi) - math.pi
        bump = torch.exp(-((dlon * 3) ** 2)) * torch.exp(-(((phi.unsqueeze(-1) - math.pi / 4) * 10) ** 2))
        amp = 2e-6 * (1 + 0.2 * torch.randn(members, 1, 1))
        return self.sht(field + amp * bump)


@torch.no_grad()
def main(members=8, steps=240):
    solver = BarotropicSolver()
    z = solver.jet(members)
    advance = torch.compile(solver.step)

    z = advance(z)
    start = time.perf_counter()
    for i in range(1, steps):
        z = advance(z)
        if i % 48 == 0:
            zeta = solver.isht(z)
            uv = solver.velocity(z)
            # zonal-mean jet and eddy kinetic energy
            ubar = uv[..., 1, :, :].mean(-1)
            eddy = uv - uv.mean(-1, keepdim=True)
            eke = 0.5 * (eddy**2).sum(-3).mean((-1, -2))
            print(
                f"hour {i * solver.dt / 3600:5.1f}  max|u| {ubar.abs().max():6.2f}  max vort {zeta.abs().max():.3e}"
                f"  EKE {eke.mean():8.4f} +- {eke.std():.4f}"
            )
    wall = time.perf_counter() - start
    print(f"{steps - 1} steps, {wall / (steps - 1) * 1e3:.1f} ms each, {members} members")


if __name__ == "__main__":
    main()
