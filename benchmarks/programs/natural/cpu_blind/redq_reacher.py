"""REDQ (randomised ensembled double Q-learning) on a small planar reacher.

High update-to-data ratio, ten critics, target = min over a random pair.
"""

import copy
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT = 10, 2
LOG_STD_MIN, LOG_STD_MAX = -20, 2


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Reacher:
    """Two-link arm, torque control, dense reward; vectorised over n copies."""

    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.reset()

    def reset(self):
        self.q = self.rng.uniform(-math.pi, math.pi, (self.n, 2))
        self.v = np.zeros((self.n, 2))
        self.goal = self.rng.uniform(-0.15, 0.15, (self.n, 2))
        self.t = 0
        return self.obs()

    def tip(self):
        a, b = self.q[:, 0], self.q.sum(1)
        return 0.1 * np.stack([np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)], 1)

    def obs(self):
        parts = [np.cos(self.q), np.sin(self.q), self.v, self.goal, self.tip() - self.goal]
        return np.concatenate(parts, 1).astype(np.float32)

    def step(self, act):
        self.v = 0.9 * self.v + 0.4 * act
        self.q = self.q + 0.1 * self.v
        reward = -np.linalg.norm(self.tip() - self.goal, axis=1) * 10 - 0.1 * (act**2).sum(1)
        self.t += 1
        return self.obs(), reward.astype(np.float32), self.t >= 50


class Actor(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.net = mlp([OBS, hidden, hidden, 2 * ACT])

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, -1)
        std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()
        u = mu + std * torch.randn_like(mu)
        logp = (-0.5 * ((u - mu) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)).sum(-1, keepdim=True)
        logp -= (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1, keepdim=True)
        return torch.tanh(u), logp


class REDQAgent:
    def __init__(self, num_q=10, num_min=2, hidden=256, gamma=0.98, rho=0.995, alpha=0.1, lr=3e-4):
        self.num_q, self.num_min = num_q, num_min
        self.gamma, self.rho, self.alpha = gamma, rho, alpha
        self.actor = Actor(hidden)
        self.q_nets = nn.ModuleList(mlp([OBS + ACT, hidden, hidden, 1]) for _ in range(num_q))
        self.q_targets = copy.deepcopy(self.q_nets).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.q_opt = torch.optim.Adam(self.q_nets.parameters(), lr=lr)
        self.rng = np.random.default_rng(7)
        self.q_target = torch.compile(self._q_target)
        self.q_loss = torch.compile(self._q_loss)

    @torch.no_grad()
    def _q_target(self, obs2, rew, done, idxs):
        act2, logp2 = self.actor(obs2)
        sa = torch.cat([obs2, act2], 1)
        preds = [self.q_targets[i](sa) for i in idxs]
        min_q = torch.cat(preds, 1).min(dim=1, keepdim=True).values
        return rew + self.gamma * (1 - done) * (min_q - self.alpha * logp2)

    def _q_loss(self, obs, act, y):
        sa = torch.cat([obs, act], 1)
        preds = torch.cat([q(sa) for q in self.q_nets], 1)
        return F.mse_loss(preds, y.expand(-1, self.num_q)) * self.num_q

    def update(self, batch):
        obs, act, rew, obs2, done = batch
        idxs = self.rng.choice(self.num_q, self.num_min, replace=False).tolist()
        y = self.q_target(obs2, rew, done, idxs)
        loss = self.q_loss(obs, act, y)
        self.q_opt.zero_grad()
        loss.backward()
        self.q_opt.step()
        with torch.no_grad():
            for p, tp in zip(self.q_nets.parameters(), self.q_targets.parameters()):
                tp.mul_(self.rho).add_(p, alpha=1 - self.rho)
        return loss.item()

    def update_actor(self, obs):
        act, logp = self.actor(obs)
        sa = torch.cat([obs, act], 1)
        q = torch.cat([q(sa) for q in self.q_nets], 1).mean(1, keepdim=True)
        loss = (self.alpha * logp - q).mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()


class Buffer:
    def __init__(self, size=20000):
        self.data = [torch.zeros(size, d) for d in (OBS, ACT, 1, OBS, 1)]
        self.size, self.n, self.ptr = size, 0, 0

    def add(self, *cols):
        k = len(cols[0])
        idx = (torch.arange(k) + self.ptr) % self.size
        for store, col in zip(self.data, cols):
            store[idx] = torch.as_tensor(col).reshape(k, -1)
        self.ptr = (self.ptr + k) % self.size
        self.n = min(self.n + k, self.size)

    def sample(self, k):
        idx = torch.randint(0, self.n, (k,))
        return [d[idx] for d in self.data]


def main():
    torch.manual_seed(0)
    env, agent, buf = Reacher(16), REDQAgent(), Buffer()
    obs = env.reset()
    for _ in range(60):
        act = env.rng.uniform(-1, 1, (env.n, ACT)).astype(np.float32)
        obs2, rew, done = env.step(act)
        buf.add(obs, act, rew, obs2, np.zeros(env.n, np.float32))
        obs = env.reset() if done else obs2
    times, returns = [], []
    for it in range(40):
        with torch.no_grad():
            act = agent.actor(torch.from_numpy(obs))[0].numpy()
        obs2, rew, done = env.step(act)
        buf.add(obs, act, rew, obs2, np.zeros(env.n, np.float32))
        returns.append(rew.mean())
        obs = env.reset() if done else obs2
        for _ in range(4):
            batch = buf.sample(512)
            t0 = time.perf_counter()
            loss = agent.update(batch)
            times.append(time.perf_counter() - t0)
        agent.update_actor(batch[0])
    steady = np.array(times[24:]) * 1e3
    print(f"q loss {loss:.3f}  mean reward {np.mean(returns[-20:]):.3f}")
    print(f"critic update: {np.median(steady):.1f} ms")


if __name__ == "__main__":
    main()
