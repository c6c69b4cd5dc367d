"""Sampling-based stability check of a lane-change controller.

Single-track vehicle model with a Pacejka tyre on both axles.  A large number of
perturbed vehicles (mass, friction, sensor offset, gusts) is rolled out for a few
control periods; the supervisor looks at the worst side slip and lateral error.
"""

import time

import torch

torch.manual_seed(8)

VEHICLES, PERIODS, DT = 262144, 5, 0.02


class Car:
    lf, lr = 1.2, 1.5  # m, centre of gravity to axles
    g = 9.81
    B, C, D = 9.5, 1.35, 1.0  # tyre shape


def pacejka(slip, mu_load):
    return Car.D * mu_load * torch.sin(Car.C * torch.atan(Car.B * slip))


@torch.compile(fullgraph=True)
def rollout(y, psi, vy, r, vx, mass, inertia, mu, offset, gusts):
    """All states [n]; gusts [periods, n] lateral force in N."""
    l = Car.lf + Car.lr
    load_f = mu * mass * Car.g * (Car.lr / l)
    load_r = mu * mass * Car.g * (Car.lf / l)
    worst_slip = torch.zeros_like(y)
    cost = torch.zeros_like(y)
    for k in range(PERIODS):
        # lane-keeping law of the series controller, saturated steering
        steer = -0.012 * (y + offset) - 0.30 * psi - 0.10 * r
        steer = steer.clamp(-0.35, 0.35)
        slip_f = steer - (vy + Car.lf * r) / vx
        slip_r = -(vy - Car.lr * r) / vx
        fy_f = pacejka(slip_f, load_f)
        fy_r = pacejka(slip_r, load_r)
        ay = (fy_f + fy_r + gusts[k]) / mass
        rdot = (Car.lf * fy_f - Car.lr * fy_r) / inertia
        vy = vy + DT * (ay - vx * r)
        r = r + DT * rdot
        psi = psi + DT * r
        y = y + DT * (vx * psi + vy)
        worst_slip = torch.maximum(worst_slip, slip_r.abs())
        cost = cost + y * y + 0.3 * steer * steer
    return y, psi, vy, r, worst_slip, cost


class Ensemble:
    def __init__(self, seed=21):
        g = torch.Generator().manual_seed(seed)

        def normal(mean, std):
            return mean + std * torch.randn(VEHICLES, generator=g)

        self.mass = normal(1550.0, 90.0)
        self.inertia = 1.5 * self.mass
        self.mu = normal(0.85, 0.08).clamp(0.5, 1.1)
        self.vx = normal(24.0, 2.0).clamp(17.0, 31.0)
        self.offset = normal(0.0, 0.08)
        self.state = [normal(1.5, 0.3), normal(0.0, 0.02), normal(0.0, 0.1), normal(0.0, 0.02)]
        self.gust_bank = [300.0 * torch.randn(PERIODS, VEHICLES, generator=g) for _ in range(4)]

    @torch.no_grad()
    def advance(self, i):
        *state, slip, cost = rollout(
            *self.state,
            self.vx,
            self.mass,
            self.inertia,
            self.mu,
            self.offset,
            self.gust_bank[i % len(self.gust_bank)],
        )
        self.state = state
        return slip, cost


def main():
    ens = Ensemble()
    for i in range(3):
        ens.advance(i)
    n, worst, total = 30, 0.0, 0.0
    t0 = time.perf_counter()
    for i in range(n):
        slip, cost = ens.advance(i)
        worst = max(worst, slip.max().item())
        total += cost.mean().item()
    dt = (time.perf_counter() - t0) / n
    print(f"time per step: {dt * 1e3:.2f} ms")
    print(
        f"result: worst rear slip {worst:.4f} rad, mean cost {total / n:.4f}, "
        f"final |y| {ens.state[0].abs().mean():.4f} m"
    )


if __name__ == "__main__":
    main()
