"""MPPI controller that docks a small harbour ferry (3-DOF manoeuvring model).

2048 sampled thrust sequences, 40-step horizon, replanned at 5 Hz.
"""

import math

import torch

SAMPLES = 2048
HORIZON = 40
DT = 0.2
PLANS = 250
TEMPERATURE = 40.0

M11, M22, M33 = 2390.0, 2448.0, 5068.0
X_U, X_UU = 50.0, 135.0
Y_V, Y_VV = 200.0, 2000.0
N_R, N_RR = 1281.0, 3200.0
LX = 1.8  # lever arm of the two azimuth thrusters
F_MAX = 700.0
DOCK = (0.0, 0.0, math.pi / 2)


def ship_step(state, ctrl, wind):
    """state [B,6] = x y psi u v r ; ctrl [B,4] = (force, azimuth) x 2, normalised."""
    x, y, psi, u, v, r = state.unbind(-1)
    f1 = F_MAX * torch.tanh(ctrl[:, 0])
    f2 = F_MAX * torch.tanh(ctrl[:, 1])
    a1 = math.pi * torch.tanh(ctrl[:, 2])
    a2 = math.pi * torch.tanh(ctrl[:, 3])
    tx = f1 * torch.cos(a1) + f2 * torch.cos(a2)
    ty = f1 * torch.sin(a1) + f2 * torch.sin(a2)
    tn = LX * (f1 * torch.sin(a1) - f2 * torch.sin(a2))

    c, s = torch.cos(psi), torch.sin(psi)
    wu = c * wind[0] + s * wind[1]
    wv = -s * wind[0] + c * wind[1]

    du = (tx + wu + M22 * v * r - X_U * u - X_UU * u.abs() * u) / M11
    dv = (ty + 1.6 * wv - M11 * u * r - Y_V * v - Y_VV * v.abs() * v) / M22
    dr = (tn - (M22 - M11) * u * v - N_R * r - N_RR * r.abs() * r) / M33
    u, v, r = u + DT * du, v + DT * dv, r + DT * dr
    x = x + DT * (c * u - s * v)
    y = y + DT * (s * u + c * v)
    psi = psi + DT * r
    return torch.stack([x, y, psi, u, v, r], dim=-1)


def stage_cost(state, ctrl):
    x, y, psi, u, v, r = state.unbind(-1)
    dist2 = (x - DOCK[0]) ** 2 + (y - DOCK[1]) ** 2
    heading = 1.0 - torch.cos(psi - DOCK[2])
    near = torch.exp(-dist2 / 50.0)
    speed = u * u + v * v + 4.0 * r * r
    # quay wall occupies x > 2 m; two moored boats either side of the berth
    wall = torch.relu(x - 1.0) ** 2
    boat_a = torch.relu(4.0 - torch.sqrt((x + 1.0) ** 2 + (y - 9.0) ** 2)) ** 2
    boat_b = torch.relu(4.0 - torch.sqrt((x + 1.0) ** 2 + (y + 9.0) ** 2)) ** 2
    effort = 0.02 * (ctrl * ctrl).sum(-1)
    return (
        torch.sqrt(dist2 + 0.1)
        + (2.0 + 20.0 * near) * heading
        + 30.0 * near * speed
        + 80.0 * wall
        + 60.0 * (boat_a + boat_b)
        + effort
    )


@torch.compile
def advance(state, cost, ctrl, wind):
    state = ship_step(state, ctrl, wind)
    return state, cost + stage_cost(state, ctrl)


def plan(x0, nominal, wind, gen):
    noise = torch.randn(SAMPLES, HORIZON, 4, generator=gen) * 0.45
    # smooth in time so thrusters are not asked to jitter
    noise[:, 1:] = 0.6 * noise[:, 1:] + 0.4 * noise[:, :-1]
    noise[0] = 0
    ctrls = nominal + noise
    state = x0.expand(SAMPLES, 6).contiguous()
    cost = torch.zeros(SAMPLES)
    for t in range(HORIZON):
        state, cost = advance(state, cost, ctrls[:, t], wind)
    wts = torch.softmax(-(cost - cost.min()) / TEMPERATURE, 0)
    return torch.einsum("s,sha->ha", wts, ctrls), float(cost.min())


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(11)
    ship = torch.tensor([-40.0, 25.0, 0.0, 1.0, 0.0, 0.0])
    nominal = torch.zeros(HORIZON, 4)
    wind_true = torch.tensor([60.0, -90.0])
    wind_belief = torch.tensor([40.0, -60.0])
    for k in range(PLANS):
        nominal, best = plan(ship, nominal, wind_belief, gen)
        gust = wind_true * (1.0 + 0.3 * torch.randn(2, generator=gen))
        ship = ship_step(ship[None], nominal[:1], gust)[0]
        nominal = torch.cat([nominal[1:], nominal[-1:]])
        if k % 50 == 49:
            x, y, psi, u, v, r = ship.tolist()
            print(
                f"t={(k + 1) * DT:5.1f}s  x={x:7.2f} y={y:7.2f} psi={math.degrees(psi):6.1f} "
                f"speed={math.hypot(u, v):.2f}  best={best:9.1f}"
            )
    print(f"final distance to berth {math.hypot(float(ship[0]), float(ship[1])):.2f} m")


if __name__ == "__main__":
    main()
