"""Model-predictive path integral control of an autonomous forklift that drives
through a warehouse: thousands of sampled rollouts per control tick."""

import math
import time

import torch

torch.manual_seed(55)

SAMPLES = 4096
HORIZON = 20
DT = 0.2
TICKS = 2400
WHEELBASE = 1.4
TEMPERATURE = 0.4

g = torch.Generator().manual_seed(8)
PILLARS = torch.stack([4 + 22 * torch.rand(14, generator=g), 2 + 16 * torch.rand(14, generator=g)], dim=1)
RADII = 0.4 + 0.4 * torch.rand(14, generator=g)
GOALS = [(28.0, 17.0), (2.0, 18.0), (28.0, 3.0), (1.0, 1.0)]


def step_dynamics(state, control):
    x, y, heading, speed, steer = state.unbind(-1)
    accel = control[..., 0].clamp(-1.5, 1.5)
    rate = control[..., 1].clamp(-1.2, 1.2)
    speed = (speed + DT * accel).clamp(-0.8, 2.5)
    steer = (steer + DT * rate).clamp(-0.7, 0.7)
    heading = heading + DT * speed * torch.tan(steer) / WHEELBASE
    x = x + DT * speed * torch.cos(heading)
    y = y + DT * speed * torch.sin(heading)
    return torch.stack([x, y, heading, speed, steer], dim=-1)


def stage_cost(state, goal):
    pos = state[:, :2]
    to_goal = goal - pos
    dist = to_goal.norm(dim=-1)
    gaps = torch.cdist(pos, PILLARS) - RADII
    near = torch.exp(-4.0 * (gaps - 0.5)).clamp(max=50.0).sum(dim=-1)
    crash = (gaps.min(dim=-1).values < 0.45).float()
    wanted = torch.atan2(to_goal[:, 1], to_goal[:, 0])
    err = torch.remainder(wanted - state[:, 2] + math.pi, 2 * math.pi) - math.pi
    walls = torch.relu(pos.abs() - 31.0).sum(-1) + torch.relu(-pos).sum(-1)
    return dist + 0.3 * err.abs() + 0.6 * near + 100.0 * crash + 20.0 * walls


@torch.compile
def rollout_costs(state, plan, noise, goal):
    states = state.expand(SAMPLES, 5)
    total = torch.zeros(SAMPLES)
    for t in range(HORIZON):
        control = plan[t] + noise[:, t]
        states = step_dynamics(states, control)
        total = total + stage_cost(states, goal)
        total = total + 0.05 * control.square().sum(-1)
    return total


def plan_update(state, plan, goal, sigma):
    noise = torch.randn(SAMPLES, HORIZON, 2) * sigma
    cost = rollout_costs(state, plan, noise, goal)
    weight = torch.softmax(-(cost - cost.min()) / TEMPERATURE / HORIZON**0.5, dim=0)
    return plan + torch.einsum("s,stc->tc", weight, noise), cost.min()


def main():
    state = torch.tensor([1.0, 1.0, 0.3, 0.0, 0.0])
    plan = torch.zeros(HORIZON, 2)
    sigma = torch.tensor([0.8, 0.6])
    goal_index, reached, contacts = 0, 0, 0
    closest = float("inf")
    path = 0.0
    ticks = []

    start = time.time()
    with torch.no_grad():
        for tick in range(TICKS):
            goal = torch.tensor(GOALS[goal_index])
            t0 = time.perf_counter()
            plan, best = plan_update(state, plan, goal, sigma)
            ticks.append(1e3 * (time.perf_counter() - t0))
            disturbance = 0.02 * torch.randn(2)
            new = step_dynamics(state, plan[0] + disturbance)
            path += (new[:2] - state[:2]).norm().item()
            state = new
            plan = torch.cat([plan[1:], plan[-1:] * 0.5])

            gap = ((PILLARS - state[:2]).norm(dim=-1) - RADII).min().item()
            closest = min(closest, gap)
            contacts += gap < 0.0
            if (goal - state[:2]).norm() < 0.8:
                reached += 1
                goal_index = (goal_index + 1) % len(GOALS)
                print(f"tick {tick}: goal {reached} reached, cost {best.item():.1f}")
    ticks.sort()
    print(f"{TICKS} ticks in {time.time() - start:.1f} s, median {ticks[TICKS // 2]:.2f} ms")
    print(f"goals {reached}, path {path:.1f} m, closest gap {closest:.2f} m, ticks in contact {contacts}")


if __name__ == "__main__":
    main()
