"""Where do my 7-iron shots land?  Monte Carlo of golf ball flights.

Launch monitor statistics -> 45k balls with scatter in speed, launch angle,
spin and spin axis -> RK4 with drag and Magnus lift in a log wind profile with
gusts -> dispersion ellipse, and how many hit the green.
"""

import math
import time

import torch

DT = 0.02
G = 9.81
RADIUS = 0.02135
MASS = 0.0459
AREA = math.pi * RADIUS**2
RHO0 = 1.225

CLUBS = {
    #          speed m/s, launch deg, spin rpm, and their standard deviations
    "7 iron": (53.0, 17.0, 7000.0, 1.2, 1.3, 450.0),
    "driver": (73.0, 11.5, 2700.0, 1.8, 1.6, 300.0),
}


def launch(club, n, gen):
    speed, angle, rpm, s_speed, s_angle, s_rpm = CLUBS[club]
    v = speed + s_speed * torch.randn(n, generator=gen)
    elev = torch.deg2rad(angle + s_angle * torch.randn(n, generator=gen))
    path = torch.deg2rad(1.6 * torch.randn(n, generator=gen))
    omega = (rpm + s_rpm * torch.randn(n, generator=gen)) * 2 * math.pi / 60
    axis = torch.deg2rad(4.0 * torch.randn(n, generator=gen))  # tilt of the spin axis: draw / fade
    zero = torch.zeros(n)
    return {
        "x": zero.clone(),
        "y": zero.clone(),
        "z": zero + 0.02,
        "vx": v * elev.cos() * path.cos(),
        "vy": v * elev.cos() * path.sin(),
        "vz": v * elev.sin(),
        "omega": omega,
        "tilt_c": axis.cos(),
        "tilt_s": axis.sin(),
        "apex": zero.clone(),
        "time": zero.clone(),
    }


def acceleration(z, vx, vy, vz, omega, tilt_c, tilt_s, wind_x, wind_y):
    # wind grows with height above the grass
    profile = torch.log1p(z.clamp(min=0.0) / 0.03) / math.log(1 + 10.0 / 0.03)
    ux = vx - wind_x * profile
    uy = vy - wind_y * profile
    uz = vz
    horizontal = torch.sqrt(ux * ux + uy * uy + 1e-9)
    speed = torch.sqrt(ux * ux + uy * uy + uz * uz + 1e-9)
    spin = RADIUS * omega / speed
    cd = 0.21 + 0.18 * torch.tanh(2.2 * spin)
    cl = 0.54 * (1.0 - torch.exp(-4.5 * spin)) + 0.02 * spin
    rho = RHO0 * torch.exp(-z / 8500.0)
    q = 0.5 * rho * AREA / MASS * speed
    # lift: perpendicular to the velocity, turned by the tilt of the spin axis
    side_x, side_y = -uy / horizontal, ux / horizontal
    up_x, up_y, up_z = -ux * uz / (horizontal * speed), -uy * uz / (horizontal * speed), horizontal / speed
    lx = tilt_c * up_x + tilt_s * side_x
    ly = tilt_c * up_y + tilt_s * side_y
    lz = tilt_c * up_z
    ax = q * (-cd * ux + cl * speed * lx)
    ay = q * (-cd * uy + cl * speed * ly)
    az = q * (-cd * uz + cl * speed * lz) - G
    return ax, ay, az


@torch.compile(dynamic=False)
def fly(ball, wind_x, wind_y):
    """One RK4 step of all the balls; those on the ground stay there."""
    x, y, z = ball["x"], ball["y"], ball["z"]
    vx, vy, vz = ball["vx"], ball["vy"], ball["vz"]
    rest = (ball["omega"], ball["tilt_c"], ball["tilt_s"], wind_x, wind_y)
    flying = z > 0

    a1 = acceleration(z, vx, vy, vz, *rest)
    v2 = (vx + 0.5 * DT * a1[0], vy + 0.5 * DT * a1[1], vz + 0.5 * DT * a1[2])
    a2 = acceleration(z + 0.5 * DT * vz, *v2, *rest)
    v3 = (vx + 0.5 * DT * a2[0], vy + 0.5 * DT * a2[1], vz + 0.5 * DT * a2[2])
    a3 = acceleration(z + 0.5 * DT * v2[2], *v3, *rest)
    v4 = (vx + DT * a3[0], vy + DT * a3[1], vz + DT * a3[2])
    a4 = acceleration(z + DT * v3[2], *v4, *rest)

    def mix(k1, k2, k3, k4):
        return DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    new = dict(ball)
    new["x"] = torch.where(flying, x + mix(vx, v2[0], v3[0], v4[0]), x)
    new["y"] = torch.where(flying, y + mix(vy, v2[1], v3[1], v4[1]), y)
    new["z"] = torch.where(flying, z + mix(vz, v2[2], v3[2], v4[2]), z)
    new["vx"] = torch.where(flying, vx + mix(a1[0], a2[0], a3[0], a4[0]), vx)
    new["vy"] = torch.where(flying, vy + mix(a1[1], a2[1], a3[1], a4[1]), vy)
    new["vz"] = torch.where(flying, vz + mix(a1[2], a2[2], a3[2], a4[2]), vz)
    new["omega"] = ball["omega"] * math.exp(-DT / 24.0)
    new["apex"] = torch.maximum(ball["apex"], new["z"])
    new["time"] = ball["time"] + DT * flying
    return new


@torch.no_grad()
def play(club, n, wind, gen):
    ball = launch(club, n, gen)
    gust = 1.0 + 0.25 * torch.randn(n, generator=gen)
    wind_x, wind_y = wind[0] * gust, wind[1] * gust
    t0, steps = time.perf_counter(), 0
    while steps < 600:
        ball = fly(ball, wind_x, wind_y)
        steps += 1
        if steps % 25 == 0 and not bool((ball["z"] > 0).any()):
            break
    ms = 1e3 * (time.perf_counter() - t0) / steps
    pts = torch.stack([ball["x"], ball["y"]], 1)
    cov = torch.cov(pts.T)
    axes = 2.45 * torch.linalg.eigvalsh(cov).clamp(min=0).sqrt()  # 95 % ellipse
    pin = pts.mean(0)
    on_green = ((pts - pin).norm(dim=1) < 9.0).float().mean()
    print(
        f"{club}, wind ({wind[0]:+.0f}, {wind[1]:+.0f}) m/s: carry {pts[:, 0].mean():.1f} m, "
        f"side {pts[:, 1].mean():+.1f} m, apex {ball['apex'].mean():.1f} m, flight {ball['time'].mean():.2f} s, "
        f"ellipse {axes[1]:.1f} x {axes[0]:.1f} m, green {100 * on_green:.1f} %  [{steps} steps, {ms:.2f} ms]"
    )
    return pts


def main():
    gen = torch.Generator().manual_seed(18)
    for wind in [(0.0, 0.0), (-5.0, 0.0)]:
        pts = play("7 iron", 45_000, wind, gen)
        assert torch.isfinite(pts).all()


if __name__ == "__main__":
    main()
