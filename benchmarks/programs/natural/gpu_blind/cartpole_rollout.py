"""Rollouts of a Gaussian policy on a batch of cart-pole simulators."""

import os
import time

import torch
import torch.nn as nn

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

ENVS = max(16, int(512 * SCALE))
HORIZON = 12

GRAVITY, M_CART, M_POLE, HALF_LEN, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TOTAL = M_CART + M_POLE


class Policy(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, 1)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def forward(self, obs):
        h = self.body(obs)
        return self.mean(h), self.log_std.exp(), self.value(h).squeeze(-1)


def env_step(state, action):
    x, xd, th, thd = state.unbind(-1)
    force = FORCE * torch.tanh(action)
    cos, sin = torch.cos(th), torch.sin(th)
    temp = (force + M_POLE * HALF_LEN * thd**2 * sin) / TOTAL
    th_acc = (GRAVITY * sin - cos * temp) / (HALF_LEN * (4 / 3 - M_POLE * cos**2 / TOTAL))
    x_acc = temp - M_POLE * HALF_LEN * th_acc * cos / TOTAL
    nxt = torch.stack([x + TAU * xd, xd + TAU * x_acc, th + TAU * thd, thd + TAU * th_acc], -1)
    done = (nxt[:, 0].abs() > 2.4) | (nxt[:, 2].abs() > 0.21)
    fresh = (torch.rand_like(nxt) - 0.5) * 0.1
    return torch.where(done[:, None], fresh, nxt), 1.0 - done.float(), done


@torch.compile(mode="reduce-overhead")
def rollout(policy, state):
    values, rewards, dones, logps = [], [], [], []
    for _ in range(HORIZON):
        mean, std, value = policy(state)
        eps = torch.randn_like(mean)
        action = mean + std * eps
        logp = (-0.5 * eps**2 - torch.log(std)).squeeze(-1)
        state, reward, done = env_step(state, action.squeeze(-1))
        values.append(value)
        rewards.append(reward)
        dones.append(done)
        logps.append(logp)

    # generalised advantage estimation, backwards in time
    adv = torch.zeros_like(values[0])
    nxt = policy(state)[2]
    advs = []
    for t in reversed(range(HORIZON)):
        alive = 1.0 - dones[t].float()
        delta = rewards[t] + 0.99 * nxt * alive - values[t]
        adv = delta + 0.99 * 0.95 * alive * adv
        nxt = values[t]
        advs.append(adv)
    return state, torch.stack(advs[::-1]), torch.stack(logps), torch.stack(rewards)


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def main():
    torch.manual_seed(8)
    policy = Policy().to(device)
    state = (torch.rand(ENVS, 4, device=device) - 0.5) * 0.1
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        state, adv, logp, rew = rollout(policy, state)
        state = state.clone()
    sync()
    steps = 60
    total = torch.zeros((), device=device)
    t0 = time.perf_counter()
    for _ in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        state, adv, logp, rew = rollout(policy, state)
        state = state.clone()
        total += rew.mean()
    sync()
    dt = (time.perf_counter() - t0) / steps
    print(
        f"mean reward {total.item() / steps:.4f}, adv std {adv.std().item():.4f}, logp {logp.mean().item():.4f}"
    )
    print(f"{dt * 1e3:.3f} ms per rollout, {ENVS * HORIZON / dt:.0f} env steps/s")


if __name__ == "__main__":
    main()
