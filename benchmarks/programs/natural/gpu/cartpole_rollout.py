"""Vectorised cart-pole environments rolled out under a stochastic policy."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def physics(state, action):
    x, v, th, w = state.unbind(-1)
    force = torch.where(action == 1, 10.0, -10.0)
    c, s = th.cos(), th.sin()
    temp = (force + 0.05 * w**2 * s) / 1.1
    thacc = (9.8 * s - c * temp) / (0.5 * (4.0 / 3.0 - 0.1 * c**2 / 1.1))
    xacc = temp - 0.05 * thacc * c / 1.1
    return torch.stack([x + 0.02 * v, v + 0.02 * xacc, th + 0.02 * w, w + 0.02 * thacc], -1)


def rollout(policy, state, horizon=16):
    rewards, logps = [], []
    for _ in range(horizon):
        logits = policy(state)
        probs = logits.softmax(-1)
        action = torch.multinomial(probs, 1).squeeze(-1)
        logps.append(probs.gather(-1, action[:, None]).log().squeeze(-1))
        state = physics(state, action)
        done = (state[:, 0].abs() > 2.4) | (state[:, 2].abs() > 0.2095)
        rewards.append((~done).float())
        fresh = (torch.rand_like(state) - 0.5) * 0.1
        state = torch.where(done[:, None], fresh, state)
    return state, torch.stack(rewards), torch.stack(logps)


def build(device, compiled):
    torch.manual_seed(0)
    n = pick(65536, 16)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).to(
        device
    )
    state = [(torch.rand(n, 4, device=device) - 0.5) * 0.1]
    run = torch.compile(rollout, backend=BACKEND) if compiled else rollout

    @torch.no_grad()
    def step():
        state[0], rewards, _ = run(policy, state[0])
        return rewards.mean()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
