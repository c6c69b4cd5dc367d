"""Truncated quantile critics (TQC) for a harbour crane that has to place a swinging container."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
OBS, ACT, HIDDEN = 6, 2, 192
N_NETS, N_QUANT, DROP = 5, 25, 2
BATCH, GAMMA, TAU = 256, 0.99, 0.005


class CraneVec:
    """Trolley, hoist and a pendulum; a number of cranes at a time."""

    def __init__(self, n):
        self.n = n
        self.state = torch.zeros(n, 5)
        self.reset(torch.ones(n, dtype=torch.bool))

    def reset(self, which):
        k = int(which.sum())
        fresh = torch.stack(
            [4 * torch.rand(k) - 2, torch.zeros(k), 0.2 * torch.randn(k), torch.zeros(k), 1 + torch.rand(k)],
            1,
        )
        self.state[which] = fresh

    def obs(self):
        x, v, th, om, length = self.state.unbind(1)
        return torch.stack([x / 2, v, th.sin(), th.cos(), om, length], 1)

    def step(self, a, dt=0.05):
        x, v, th, om, length = self.state.unbind(1)
        acc = 3 * a[:, 0] - 0.3 * v
        om = om + dt * (-(9.81 * th.sin() + acc * th.cos()) / length - 0.1 * om)
        th = th + dt * om
        v = v + dt * acc
        x = x + dt * v
        length = (length + dt * 0.5 * a[:, 1]).clamp(0.5, 2.5)
        self.state = torch.stack([x, v, th, om, length], 1)
        reward = -(x**2) - 2 * th**2 - 0.1 * v**2 - 0.01 * (a**2).sum(1)
        done = (x.abs() > 4) | (th.abs() > 1.2)
        obs = self.obs()
        if done.any():
            self.reset(done)
        return obs, reward - 10 * done.float(), done.float()


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, 2 * ACT),
        )

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, -1)
        log_std = log_std.clamp(-20, 2)
        pre = mu + log_std.exp() * torch.randn_like(mu)
        logp = (-0.5 * ((pre - mu) / log_std.exp()) ** 2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        logp = logp - (2 * (math.log(2) - pre - F.softplus(-2 * pre))).sum(-1)
        return torch.tanh(pre), logp


class Critics(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(
                nn.Linear(OBS + ACT, HIDDEN),
                nn.ReLU(),
                nn.Linear(HIDDEN, HIDDEN),
                nn.ReLU(),
                nn.Linear(HIDDEN, N_QUANT),
            )
            for _ in range(N_NETS)
        )

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return torch.stack([net(x) for net in self.nets], 1)


def quantile_huber(quantiles, target):
    delta = target[:, None, None, :] - quantiles[:, :, :, None]
    a = delta.abs()
    huber = torch.where(a > 1, a - 0.5, 0.5 * delta**2)
    taus = torch.arange(N_QUANT, device=quantiles.device) / N_QUANT + 1 / 2 / N_QUANT
    return ((taus[None, None, :, None] - (delta < 0).float()).abs() * huber).mean()


class Agent:
    def __init__(self):
        self.actor, self.critic = Actor(), Critics()
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.opt_t = torch.optim.Adam([self.log_alpha], lr=3e-4)

    @torch.compile
    def critic_loss(self, obs, act, rew, nxt, done):
        with torch.no_grad():
            nact, nlogp = self.actor(nxt)
            q = self.target(nxt, nact).flatten(1).sort(dim=1).values[:, : -DROP * N_NETS]
            y = rew[:, None] + GAMMA * (1 - done[:, None]) * (q - self.log_alpha.exp() * nlogp[:, None])
        return quantile_huber(self.critic(obs, act), y)

    @torch.compile
    def actor_loss(self, obs):
        act, logp = self.actor(obs)
        q = self.critic(obs, act).mean((1, 2))
        alpha = self.log_alpha.exp().detach()
        return (alpha * logp - q).mean(), -(self.log_alpha * (logp.detach() - ACT)).mean()

    def update(self, batch):
        loss_c = self.critic_loss(*batch)
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()
        loss_a, loss_t = self.actor_loss(batch[0])
        self.opt_a.zero_grad()
        self.opt_t.zero_grad()
        (loss_a + loss_t).backward()
        self.opt_a.step()
        self.opt_t.step()
        with torch.no_grad():
            for t, s in zip(self.target.parameters(), self.critic.parameters()):
                t.lerp_(s, TAU)
        return loss_c.item(), loss_a.item()


def main():
    env, agent = CraneVec(32), Agent()
    buf = [torch.zeros(20000, *s) for s in ((OBS,), (ACT,), (), (OBS,), ())]
    ptr = full = 0
    obs, hist = env.obs(), []
    for step in range(125):
        with torch.no_grad():
            act = agent.actor(obs)[0] if step > 20 else 2 * torch.rand(env.n, ACT) - 1
        nxt, rew, done = env.step(act)
        for store, value in zip(buf, (obs, act, rew, nxt, done)):
            store[ptr : ptr + env.n] = value
        ptr = (ptr + env.n) % 20000
        full = min(full + env.n, 20000)
        obs = env.obs()
        if step > 20:
            idx = torch.randint(0, full, (BATCH,))
            hist.append((*agent.update([b[idx] for b in buf]), rew.mean().item()))
    tail = torch.tensor(hist[-20:]).mean(0)
    print(f"updates {len(hist)}  critic {tail[0]:.4f}  actor {tail[1]:.3f}  reward {tail[2]:.3f}")
    print(f"alpha {agent.log_alpha.exp().item():.4f}")


if __name__ == "__main__":
    main()
