"""Ring-road traffic with the Intelligent Driver Model, many scenarios side by side.

Used to sweep the demand / truck share and see where stop-and-go waves appear.
"""

import argparse
import time
from typing import NamedTuple

import torch


class Drivers(NamedTuple):
    v0: torch.Tensor  # desired speed
    headway: torch.Tensor  # time gap
    a_max: torch.Tensor
    b_comf: torch.Tensor
    length: torch.Tensor


S0 = 2.0
DELTA = 4
MAX_BRAKE = 9.0


def make_drivers(scenarios, cars, truck_share, gen):
    trucks = torch.rand(scenarios, cars, generator=gen) < truck_share[:, None]

    def pick(car, truck, spread):
        base = torch.where(trucks, torch.tensor(truck), torch.tensor(car))
        return base * (1 + spread * torch.randn(scenarios, cars, generator=gen)).clamp(0.5, 1.5)

    return Drivers(
        v0=pick(33.0, 23.0, 0.08),
        headway=pick(1.2, 1.8, 0.15),
        a_max=pick(1.4, 0.7, 0.1),
        b_comf=pick(2.0, 1.6, 0.1),
        length=pick(4.5, 12.0, 0.05),
    )


def initial_state(drivers, ring, gen):
    scenarios, cars = drivers.v0.shape
    x = torch.linspace(0, ring, cars + 1)[:-1].repeat(scenarios, 1)
    x = x + torch.rand(scenarios, cars, generator=gen) * 2.0
    v = 0.6 * drivers.v0
    return x, v


def acceleration(x, v, d, ring, speed_limit, zone):
    lead_x = torch.roll(x, -1, dims=1)
    lead_v = torch.roll(v, -1, dims=1)
    lead_len = torch.roll(d.length, -1, dims=1)
    gap = torch.remainder(lead_x - x, ring) - lead_len
    gap = gap.clamp(min=0.1)

    in_zone = (torch.remainder(x, ring) > zone[0]) & (torch.remainder(x, ring) < zone[1])
    v0 = torch.where(in_zone, torch.minimum(d.v0, speed_limit[:, None]), d.v0)

    dv = v - lead_v
    desired = S0 + torch.relu(v * d.headway + v * dv / (2 * torch.sqrt(d.a_max * d.b_comf)))
    acc = d.a_max * (1 - (v / v0) ** DELTA - (desired / gap) ** 2)
    return acc.clamp(min=-MAX_BRAKE)


def simulate_chunk(x, v, drivers, ring, speed_limit, zone, dt, substeps):
    fuel = torch.zeros_like(v)
    for _ in range(substeps):
        acc = acceleration(x, v, drivers, ring, speed_limit, zone)
        new_v = (v + dt * acc).clamp(min=0.0)
        x = x + dt * 0.5 * (v + new_v)
        power = new_v * (0.3 + 0.0004 * new_v * new_v + 1.1 * acc.clamp(min=0.0))
        fuel = fuel + dt * power
        v = new_v
    flow = v.mean(dim=1)
    spread = v.std(dim=1)
    stopped = (v < 1.0).float().mean(dim=1)
    return x, v, fuel.sum(dim=1), flow, spread, stopped


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--scenarios", type=int, default=96)
    ap.add_argument("--cars", type=int, default=400)
    ap.add_argument("--ring", type=float, default=12_000.0)
    ap.add_argument("--minutes", type=float, default=1.5)
    ap.add_argument("--dt", type=float, default=0.2)
    ap.add_argument("--substeps", type=int, default=5)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()

    gen = torch.Generator().manual_seed(args.seed)
    truck_share = torch.linspace(0.0, 0.35, args.scenarios)
    speed_limit = torch.linspace(14.0, 28.0, 8).repeat(args.scenarios // 8)
    drivers = make_drivers(args.scenarios, args.cars, truck_share, gen)
    x, v = initial_state(drivers, args.ring, gen)
    zone = (4000.0, 4600.0)

    chunk = torch.compile(simulate_chunk)

    with torch.no_grad():
        for _ in range(3):
            chunk(x, v, drivers, args.ring, speed_limit, zone, args.dt, args.substeps)

        chunks = int(args.minutes * 60 / (args.dt * args.substeps))
        history = []
        fuel_total = torch.zeros(args.scenarios)
        t0 = time.perf_counter()
        for _ in range(chunks):
            x, v, fuel, flow, spread, stopped = chunk(
                x, v, drivers, args.ring, speed_limit, zone, args.dt, args.substeps
            )
            fuel_total += fuel
            history.append(torch.stack([flow, spread, stopped]))
        elapsed = time.perf_counter() - t0

    hist = torch.stack(history)[chunks // 2 :].mean(0)
    for i in range(0, args.scenarios, args.scenarios // 4):
        print(
            f"trucks {truck_share[i]:.2f} limit {speed_limit[i]:.0f}  speed {hist[0, i]:.2f} m/s  "
            f"spread {hist[1, i]:.2f}  stopped {hist[2, i]:.3f}  fuel {fuel_total[i] / args.cars:.1f}"
        )
    print(f"{chunks} chunks of {args.substeps} steps, {elapsed / chunks * 1e3:.2f} ms per chunk")


if __name__ == "__main__":
    main()
