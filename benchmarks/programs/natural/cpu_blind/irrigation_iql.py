"""Offline RL (implicit Q-learning) of an irrigation controller from logged seasons of a growers' rule-based policy."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)

OBS, ACT = 17, 4  # soil moisture of 4 blocks, forecasts, crop stage ... / valve openings of 4 blocks
HIDDEN = 256
BATCH = 256
GAMMA, TAU, EXPECTILE, BETA = 0.98, 0.005, 0.8, 3.0
STEPS = 400


def step_field(obs, act):
    """A crude bucket model: moisture in 0..4, rain forecast in 4..8, heat in 8, the rest is slow context."""
    moist, rain, heat = obs[:, :4], obs[:, 4:8], obs[:, 8:9]
    et = 0.08 * (1 + 0.5 * heat)
    nxt_m = moist + 0.25 * act.clamp(0, 1) + 0.1 * rain.clamp_min(0) - et + 0.02 * torch.randn_like(moist)
    reward = -(nxt_m - 0.6).abs().sum(1) - 0.3 * act.clamp(0, 1).sum(1)
    nxt_r = 0.7 * rain + 0.5 * torch.randn_like(rain)
    nxt_h = 0.9 * heat + 0.2 * torch.randn_like(heat)
    return torch.cat([nxt_m.clamp(0, 1.5), nxt_r, nxt_h, obs[:, 9:]], 1), reward


def grower_policy(obs):
    want = (0.55 - obs[:, :4]) * 3 + 0.3
    return (want + 0.25 * torch.randn_like(want)).clamp(0, 1)


def log_seasons(fields=400, days=60):
    obs = torch.cat([torch.rand(fields, 4), torch.randn(fields, OBS - 4)], 1)
    buf = []
    for day in range(days):
        act = grower_policy(obs)
        nxt, rew = step_field(obs, act)
        done = torch.full((fields,), float(day == days - 1))
        buf.append((obs, act, rew, nxt, done))
        obs = nxt
    return [torch.cat(col) for col in zip(*buf)]


def mlp(n_in, n_out, norm=False):
    layers = [nn.Linear(n_in, HIDDEN)]
    if norm:
        layers.append(nn.LayerNorm(HIDDEN))
    layers += [nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_out)]
    return nn.Sequential(*layers)


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1, True), mlp(OBS + ACT, 1, True)

    def both(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)

    def forward(self, obs, act):
        return torch.min(*self.both(obs, act))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, ACT)
        self.log_std = nn.Parameter(torch.full((ACT,), -1.0))

    def mean(self, obs):
        return torch.sigmoid(self.net(obs))

    def log_prob(self, obs, act):
        std = self.log_std.clamp(-5, 1).exp()
        z = (act - self.mean(obs)) / std
        return (-0.5 * z**2 - std.log() - 0.919).sum(-1)


class IQL:
    def __init__(self):
        self.q, self.v, self.pi = TwinQ(), mlp(OBS, 1), Policy()
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt_q = torch.optim.Adam(self.q.parameters(), 1e-3)
        self.opt_v = torch.optim.Adam(self.v.parameters(), 1e-3)
        self.opt_pi = torch.optim.Adam(self.pi.parameters(), 1e-3)
        self.value_loss = torch.compile(self._value_loss)
        self.q_loss = torch.compile(self._q_loss)
        self.policy_loss = torch.compile(self._policy_loss)

    def _value_loss(self, obs, act):
        with torch.no_grad():
            target = self.q_target(obs, act)
        v = self.v(obs).squeeze(-1)
        adv = target - v
        weight = torch.where(adv > 0, EXPECTILE, 1 - EXPECTILE)
        return (weight * adv**2).mean(), adv.detach()

    def _q_loss(self, obs, act, rew, nxt, done):
        with torch.no_grad():
            target = rew + GAMMA * (1 - done) * self.v(nxt).squeeze(-1)
        q1, q2 = self.q.both(obs, act)
        return F.mse_loss(q1, target) + F.mse_loss(q2, target)

    def _policy_loss(self, obs, act, adv):
        w = torch.exp(BETA * adv).clamp(max=100.0)
        return -(w * self.pi.log_prob(obs, act)).mean()

    def update(self, batch):
        obs, act, rew, nxt, done = batch
        lv, adv = self.value_loss(obs, act)
        self._step(self.opt_v, lv)
        lq = self.q_loss(obs, act, rew, nxt, done)
        self._step(self.opt_q, lq)
        lp = self.policy_loss(obs, act, adv)
        self._step(self.opt_pi, lp)
        with torch.no_grad():
            for p, tp in zip(self.q.parameters(), self.q_target.parameters()):
                tp.lerp_(p, TAU)
        return lv, lq, lp

    @staticmethod
    def _step(opt, loss):
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


@torch.no_grad()
def evaluate(policy, fields=64, days=60):
    obs = torch.cat([torch.rand(fields, 4), torch.randn(fields, OBS - 4)], 1)
    total = torch.zeros(fields)
    for _ in range(days):
        obs, rew = step_field(obs, policy(obs))
        total += rew
    return total.mean().item()


if __name__ == "__main__":
    data = log_seasons()
    n = data[0].shape[0]
    agent = IQL()
    print(f"{n} logged days, grower's return {evaluate(grower_policy):.2f}")
    for it in range(STEPS):
        idx = torch.randint(n, (BATCH,))
        losses = agent.update([d[idx] for d in data])
        if it % 100 == 0:
            print(it, [round(l.item(), 4) for l in losses])
    print(f"learned policy's return {evaluate(agent.pi.mean):.2f}")
