"""CrossQ agent that learns to hold a harbour tug alongside a drifting hull, all on one device."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
ENVS = 32 if SMOKE else 4096
BATCH = 64 if SMOKE else 16384
HIDDEN = 32 if SMOKE else 1024
CAPACITY = 2000 if SMOKE else 1_000_000
ITERATIONS = 10 if SMOKE else 400
WARMUP = 3 if SMOKE else 10
OBS, ACT = 10, 3
GAMMA = 0.985


class TugEnv:
    def __init__(self, count):
        self.count = count
        self.state = torch.zeros(count, 6, device=DEVICE)
        self.hull = torch.zeros(count, 3, device=DEVICE)
        self.current = torch.zeros(count, device=DEVICE)
        self.age = torch.zeros(count, device=DEVICE)
        self.reset(torch.ones(count, dtype=torch.bool, device=DEVICE))

    def reset(self, done):
        n = int(done.sum())
        self.state[done] = torch.randn(n, 6, device=DEVICE) * torch.tensor(
            [8, 8, 1, 0.5, 0.5, 0.1], device=DEVICE
        )
        self.hull[done] = torch.randn(n, 3, device=DEVICE) * 0.3
        self.current[done] = torch.rand(n, device=DEVICE) * 2 * math.pi
        self.age[done] = 0

    def observe(self):
        s, c = self.state, self.current
        return torch.cat(
            [
                s[:, :2] / 10,
                torch.sin(s[:, 2:3]),
                torch.cos(s[:, 2:3]),
                s[:, 3:],
                self.hull[:, :1],
                torch.sin(c)[:, None],
                torch.cos(c)[:, None],
            ],
            1,
        )

    def step(self, action):
        x, y, heading, u, v, r = self.state.unbind(1)
        port, starboard, bow = action.unbind(1)
        surge = 0.35 * (port + starboard) - 0.12 * u * u.abs() - 0.05 * u
        sway = 0.15 * bow - 0.4 * v * v.abs() - 0.1 * v
        yaw = 0.2 * (starboard - port) + 0.1 * bow - 0.5 * r
        drift_x, drift_y = 0.2 * torch.cos(self.current), 0.2 * torch.sin(self.current)
        dt = 0.5
        u, v, r = u + dt * surge, v + dt * sway, r + dt * yaw
        cos, sin = torch.cos(heading), torch.sin(heading)
        x = x + dt * (u * cos - v * sin + drift_x - self.hull[:, 0])
        y = y + dt * (u * sin + v * cos + drift_y - self.hull[:, 1])
        self.state = torch.stack([x, y, heading + dt * r, u, v, r], 1)
        self.age += 1
        distance = torch.sqrt(x * x + y * y)
        reward = torch.exp(-distance / 4) - 0.02 * action.pow(2).sum(1) - 0.1 * (1 - torch.cos(heading))
        lost = distance > 40
        return reward, lost, lost | (self.age > 200)


def norm(width):
    return nn.BatchNorm1d(width, momentum=0.01, eps=1e-3)


class TwinCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(
                norm(OBS + ACT),
                nn.Linear(OBS + ACT, HIDDEN),
                nn.ReLU(),
                norm(HIDDEN),
                nn.Linear(HIDDEN, HIDDEN),
                nn.ReLU(),
                norm(HIDDEN),
                nn.Linear(HIDDEN, 1),
            )
            for _ in range(2)
        )

    def forward(self, obs, act):
        x = torch.cat([obs, act], 1)
        return torch.cat([net(x) for net in self.nets], 1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            norm(OBS),
            nn.Linear(OBS, HIDDEN // 2),
            nn.ReLU(),
            norm(HIDDEN // 2),
            nn.Linear(HIDDEN // 2, HIDDEN // 2),
            nn.ReLU(),
            norm(HIDDEN // 2),
            nn.Linear(HIDDEN // 2, 2 * ACT),
        )

    def forward(self, obs):
        mean, log_std = self.body(obs).chunk(2, 1)
        dist = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        raw = dist.rsample()
        log_prob = dist.log_prob(raw) - 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return torch.tanh(raw), log_prob.sum(1)


@torch.compile
def critic_loss(critic, actor, log_alpha, obs, act, reward, terminal, next_obs):
    with torch.no_grad():
        next_act, next_logp = actor(next_obs)
    both = critic(torch.cat([obs, next_obs]), torch.cat([act, next_act]))
    q, next_q = both.chunk(2, 0)
    soft = next_q.detach().min(1).values - log_alpha.exp().detach() * next_logp
    target = reward + GAMMA * (1 - terminal) * soft
    return F.mse_loss(q, target[:, None].expand_as(q))


@torch.compile
def actor_loss(critic, actor, log_alpha, obs):
    act, logp = actor(obs)
    q = critic(obs, act).min(1).values
    policy = (log_alpha.exp().detach() * logp - q).mean()
    alpha = -(log_alpha * (logp.detach() - ACT)).mean()
    return policy + alpha


def main():
    torch.manual_seed(8)
    torch.set_float32_matmul_precision("high")
    env, critic, actor = TugEnv(ENVS), TwinCritic().to(DEVICE), Actor().to(DEVICE)
    log_alpha = torch.zeros((), device=DEVICE, requires_grad=True)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    actor_opt = torch.optim.Adam([*actor.parameters(), log_alpha], lr=5e-4, betas=(0.5, 0.999))
    replay = torch.zeros(CAPACITY, 2 * OBS + ACT + 2, device=DEVICE)
    size, cursor, start = 0, 0, time.time()
    obs = env.observe()
    for it in range(ITERATIONS):
        with torch.no_grad():
            actor.eval()
            act = actor(obs)[0] if it >= WARMUP else torch.rand(ENVS, ACT, device=DEVICE) * 2 - 1
            actor.train()
            reward, terminal, done = env.step(act)
            next_obs = env.observe()
            rows = (torch.arange(ENVS, device=DEVICE) + cursor) % CAPACITY
            replay[rows] = torch.cat([obs, act, reward[:, None], terminal.float()[:, None], next_obs], 1)
            cursor, size = (cursor + ENVS) % CAPACITY, min(size + ENVS, CAPACITY)
            env.reset(done)
            obs = env.observe()
        if it < WARMUP:
            continue
        for update in range(3):
            sample = replay[torch.randint(0, size, (BATCH,), device=DEVICE)]
            o, a, r, t, n = sample.split([OBS, ACT, 1, 1, OBS], 1)
            loss_q = critic_loss(critic, actor, log_alpha, o, a, r[:, 0], t[:, 0], n)
            critic_opt.zero_grad()
            loss_q.backward()
            critic_opt.step()
        loss_pi = actor_loss(critic, actor, log_alpha, o)
        actor_opt.zero_grad()
        loss_pi.backward()
        actor_opt.step()
        if it % 100 == 99:
            print(f"iteration {it} reward {reward.mean().item():.3f} critic {loss_q.item():.4f}")
    print(
        f"final reward {reward.mean().item():.3f} alpha {log_alpha.exp().item():.3f} {time.time() - start:.1f} s"
    )


if __name__ == "__main__":
    main()
