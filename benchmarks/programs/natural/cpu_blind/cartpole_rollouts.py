"""Collect on-policy rollouts from a vectorised cart-pole swing-up task."""

import math
import time

import torch
import torch.nn as nn

NUM_ENVS = 256
HORIZON = 96
GAMMA, LAM = 0.99, 0.95


class CartPoleVec:
    gravity, m_cart, m_pole, length = 9.81, 1.0, 0.1, 0.5
    dt = 0.02
    limit = 2.4

    def __init__(self, n):
        self.n = n
        self.state = self.initial(n)
        self.age = torch.zeros(n)

    def initial(self, n):
        s = 0.1 * torch.randn(n, 4)
        s[:, 2] += math.pi
        return s

    def observe(self):
        x, xd, th, thd = self.state.unbind(1)
        return torch.stack((x, xd, torch.cos(th), torch.sin(th), thd), dim=1)

    def step(self, action):
        x, xd, th, thd = self.state.unbind(1)
        force = 10.0 * torch.tanh(action)
        sin, cos = torch.sin(th), torch.cos(th)
        total = self.m_cart + self.m_pole
        ml = self.m_pole * self.length
        tmp = (force + ml * thd.square() * sin) / total
        thacc = (self.gravity * sin - cos * tmp) / (
            self.length * (4.0 / 3.0 - self.m_pole * cos.square() / total)
        )
        xacc = tmp - ml * thacc * cos / total
        xd = xd + self.dt * xacc
        x = x + self.dt * xd
        thd = thd + self.dt * thacc
        th = th + self.dt * thd
        self.age += 1
        done = (x.abs() > self.limit) | (self.age >= 400)
        reward = torch.cos(th) - 0.01 * x.square() - 0.001 * force.square()
        state = torch.stack((x, xd, th, thd), dim=1)
        self.state = torch.where(done[:, None], self.initial(self.n), state)
        self.age = torch.where(done, torch.zeros_like(self.age), self.age)
        return self.observe(), reward, done


class ActorCritic(nn.Module):
    def __init__(self, obs=5, hidden=64):
        super().__init__()
        self.pi = nn.Sequential(
            nn.Linear(obs, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 1),
        )
        self.v = nn.Sequential(
            nn.Linear(obs, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 1),
        )
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def forward(self, obs):
        return self.pi(obs).squeeze(-1), self.v(obs).squeeze(-1), self.log_std.exp()


@torch.no_grad()
def collect(env, policy, obs):
    obs_buf, logps, rewards, values, dones = [], [], [], [], []
    for _ in range(HORIZON):
        mean, value, std = policy(obs)
        noise = torch.randn_like(mean)
        action = mean + std * noise
        logp = -0.5 * noise.square() - std.log() - 0.5 * math.log(2 * math.pi)
        obs_buf.append(obs)
        logps.append(logp)
        values.append(value)
        obs, reward, done = env.step(action)
        rewards.append(reward)
        dones.append(done)
    values.append(policy(obs)[1])
    adv = torch.zeros(env.n)
    advantages = []
    for t in reversed(range(HORIZON)):
        alive = 1.0 - dones[t].float()
        delta = rewards[t] + GAMMA * values[t + 1] * alive - values[t]
        adv = delta + GAMMA * LAM * alive * adv
        advantages.append(adv)
    batch = (torch.stack(obs_buf), torch.stack(logps), torch.stack(advantages[::-1]))
    return batch, torch.stack(rewards).mean().item(), obs


def main():
    torch.manual_seed(5)
    torch.set_num_threads(2)
    env = CartPoleVec(NUM_ENVS)
    policy = torch.compile(ActorCritic(), mode="reduce-overhead")
    obs = env.observe()
    for _ in range(3):
        _, _, obs = collect(env, policy, obs)

    rollouts = 40
    checksum = 0.0
    start = time.perf_counter()
    for _ in range(rollouts):
        batch, reward, obs = collect(env, policy, obs)
        checksum += reward
    elapsed = time.perf_counter() - start
    print(f"time per rollout: {elapsed / rollouts * 1e3:.3f} ms")
    print(f"steps/s: {NUM_ENVS * HORIZON * rollouts / elapsed:,.0f}")
    print(f"checksum: {checksum:.5f} adv {batch[2].mean().item():.5f}")


if __name__ == "__main__":
    main()
