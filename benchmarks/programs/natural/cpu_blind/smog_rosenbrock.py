"""Gas-phase chemistry operator of the urban air-quality model.

Small photochemical smog mechanism (NOx / O3 / HOx / one lumped VOC) integrated
per grid cell with the two-stage Rosenbrock method ROS2 (Verwer et al. 1999).
Each call advances all cells by one transport step.
"""

import time

import torch

SPECIES = ["O3", "NO", "NO2", "OH", "HO2", "RO2", "VOC", "HCHO", "HNO3"]
GAMMA = 1.0 + 1.0 / 2**0.5


def rates(c, temp, jno2, jo3, jhcho):
    """Production minus loss for one cell; concentrations in ppb, time in s."""
    o3, no, no2, oh, ho2, ro2, voc, hcho, hno3 = c.unbind(0)
    k_no_o3 = 0.0443 * torch.exp(-1370.0 * (1 / temp - 1 / 298.0)) * 0.01
    k_ho2_no = 0.199 * torch.exp(240.0 * (1 / temp - 1 / 298.0))
    k_ro2_no = 0.187 * torch.exp(180.0 * (1 / temp - 1 / 298.0))
    r1 = jno2 * no2
    r2 = k_no_o3 * no * o3
    r3 = 0.08 * jo3 * o3
    r4 = 0.271 * oh * no2
    r5 = 0.31 * oh * voc
    r6 = k_ro2_no * ro2 * no
    r7 = k_ho2_no * ho2 * no
    r8 = jhcho * hcho
    r9 = 0.23 * oh * hcho
    r10 = 0.07 * ho2 * ho2
    r11 = 0.12 * ho2 * ro2
    r12 = 4.9e-5 * ho2 * o3
    r13 = 1.7e-3 * oh * o3
    d_o3 = r1 - r2 - r3 - r12 - r13
    d_no = r1 - r2 - r6 - r7
    d_no2 = r2 + r6 + r7 - r1 - r4
    d_oh = 2 * r3 + r7 + r12 - r4 - r5 - r9 - r13
    d_ho2 = r6 + 2 * r8 + r9 + r13 - r7 - 2 * r10 - r11 - r12
    d_ro2 = r5 - r6 - r11
    d_voc = -r5
    d_hcho = 0.8 * r6 - r8 - r9
    d_hno3 = r4
    return torch.stack([d_o3, d_no, d_no2, d_oh, d_ho2, d_ro2, d_voc, d_hcho, d_hno3])


batched_rates = torch.vmap(rates)
batched_jac = torch.vmap(torch.func.jacfwd(rates))


def ros2_step(c, h, met):
    eye = torch.eye(c.shape[1], dtype=c.dtype)
    a = eye - GAMMA * h * batched_jac(c, *met)
    lu, piv = torch.linalg.lu_factor(a)
    k1 = torch.linalg.lu_solve(lu, piv, batched_rates(c, *met).unsqueeze(-1)).squeeze(-1)
    rhs = batched_rates(c + h * k1, *met) - 2.0 * k1
    k2 = torch.linalg.lu_solve(lu, piv, rhs.unsqueeze(-1)).squeeze(-1)
    return (c + 1.5 * h * k1 + 0.5 * h * k2).clamp(min=0.0)


def chemistry(c, emis, met, dt: float, n_sub: int):
    h = dt / n_sub
    for _ in range(n_sub):
        c = ros2_step(c + h * emis, h, met)
    return c


def photolysis(hour, lat):
    elev = torch.sin(torch.deg2rad(lat)) * 0.35 + torch.cos(torch.deg2rad(lat)) * 0.94 * torch.cos(
        torch.tensor((hour - 12.0) / 12.0 * 3.14159265, dtype=torch.float64)
    )
    sun = elev.clamp(min=0.0)
    return 8.9e-3 * sun, 3.2e-5 * sun, 3.0e-5 * sun


def main():
    torch.manual_seed(1)
    nx, ny = 48, 40
    cells = nx * ny
    c = torch.zeros(cells, len(SPECIES), dtype=torch.float64)
    c[:, 0] = 30.0 + 10 * torch.rand(cells, dtype=torch.float64)
    c[:, 1] = 2.0 + 6 * torch.rand(cells, dtype=torch.float64)
    c[:, 2] = 5.0 + 8 * torch.rand(cells, dtype=torch.float64)
    c[:, 6] = 2.0 + 4 * torch.rand(cells, dtype=torch.float64)
    c[:, 7] = 1.0 + torch.rand(cells, dtype=torch.float64)
    emis = torch.zeros_like(c)
    emis[:, 1] = 4e-4 * torch.rand(cells, dtype=torch.float64)
    emis[:, 6] = 6e-4 * torch.rand(cells, dtype=torch.float64)
    lat = torch.linspace(44.0, 46.0, ny, dtype=torch.float64).repeat_interleave(nx)

    advance = torch.compile(chemistry)
    wind_shift, dt, times = 1, 60.0, []
    for step in range(120):
        hour = 6.0 + step * dt / 600.0
        temp = 288.0 + 10.0 * (hour - 6.0) / 12.0 + 0.5 * (lat - 45.0)
        met = (temp, *photolysis(hour, lat))
        t0 = time.perf_counter()
        c = advance(c, emis, met, dt, 2)
        times.append(time.perf_counter() - t0)
        if step % 5 == 0:
            grid = c.view(ny, nx, -1)
            c = (0.8 * grid + 0.2 * grid.roll(wind_shift, 1)).reshape(cells, -1).contiguous()
    mean = c.mean(0)
    print("  ".join(f"{s} {v:.3g}" for s, v in zip(SPECIES, mean.tolist())))
    times = sorted(times[10:])
    print(f"chemistry: {1e3 * times[len(times) // 2]:.1f} ms per step, {cells} cells")


if __name__ == "__main__":
    main()
