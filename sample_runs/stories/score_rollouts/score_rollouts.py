"""Scores recorded rollouts of a cart and pole: forty steps, a reward for each that is still upright."""

import torch

STEPS, POLICIES, STARTS = 40, 4096, 256


def inputs():
    generator = torch.Generator("cuda").manual_seed(0)
    size = (POLICIES, STARTS)
    states = [torch.randn(*size, 4, device="cuda", generator=generator) * 0.2 for _ in range(STEPS)]
    forces = [torch.randn(*size, 1, device="cuda", generator=generator) for _ in range(STEPS)]
    return states, forces


def step(states, forces):
    alive = torch.ones(states[0].shape[:2], device=states[0].device)
    cost = torch.zeros_like(alive)
    for state, force in zip(states, forces):
        action = torch.tanh(force).squeeze(-1)
        inside = (state[..., 2].abs() < 0.6) & (state[..., 0].abs() < 2.4)
        alive = alive * inside.float()
        cost = cost + alive * (state[..., 2] ** 2 + 0.1 * state[..., 0] ** 2 + 0.001 * action**2) + (1 - alive)
    return cost.mean(1)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    for _ in range(25):
        result = run(*args)
    torch.cuda.synchronize()
