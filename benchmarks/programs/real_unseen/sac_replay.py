"""Soft actor-critic with a GPU replay buffer on a vectorised pendulum, with the environment step and both updates compiled."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


@torch.compile
def pendulum_step(state, action):
    th, om = state.unbind(-1)
    u = 2.0 * action.squeeze(-1)
    wrapped = torch.remainder(th + math.pi, 2 * math.pi) - math.pi
    reward = -(wrapped**2 + 0.1 * om**2 + 0.001 * u**2)
    om = (om + (15.0 * th.sin() + 3.0 * u) * 0.05).clamp(-8, 8)
    return torch.stack([th + om * 0.05, om], -1), reward


def observe(s):
    return torch.stack([s[..., 0].cos(), s[..., 0].sin(), s[..., 1] / 8], -1)


class Actor(nn.Module):
    def __init__(self, h=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 2))

    def forward(self, obs):
        mu, ls = self.body(obs).chunk(2, -1)
        ls = ls.clamp(-5, 2)
        pre = mu + ls.exp() * torch.randn_like(mu)
        logp = -0.5 * ((pre - mu) / ls.exp()) ** 2 - ls - 0.5 * math.log(2 * math.pi)
        logp = logp - 2 * (math.log(2) - pre - F.softplus(-2 * pre))
        return pre.tanh(), logp.sum(-1)


class Critics(nn.Module):
    def __init__(self, n=2, h=256):
        super().__init__()
        self.qs = nn.ModuleList(
            nn.Sequential(
                nn.Linear(4, h), nn.LayerNorm(h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1)
            )
            for _ in range(n)
        )

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return torch.stack([q(x).squeeze(-1) for q in self.qs])


torch.manual_seed(14)
actor, critic = Actor().cuda(), Critics().cuda()
target = copy.deepcopy(critic).requires_grad_(False)
log_alpha = torch.zeros((), device="cuda", requires_grad=True)


@torch.compile
def critic_loss(obs, act, rew, nxt):
    with torch.no_grad():
        a2, lp2 = actor(nxt)
        backup = rew + 0.99 * (target(nxt, a2).min(0).values - log_alpha.exp() * lp2)
    return F.mse_loss(critic(obs, act), backup.expand(2, -1))


@torch.compile
def actor_loss(obs):
    a, lp = actor(obs)
    q = critic(obs, a).min(0).values
    alpha = log_alpha.exp()
    return (alpha.detach() * lp - q).mean() - (log_alpha * (lp.detach() - 1.0)).mean()


def main():
    oc = torch.optim.Adam(critic.parameters(), 1e-3)
    oa = torch.optim.Adam([*actor.parameters(), log_alpha], 3e-4)
    cap, envs = 200_000, 1024
    buf = {k: torch.zeros(cap, n, device="cuda") for k, n in (("o", 3), ("a", 1), ("r", 1), ("n", 3))}
    state = torch.rand(envs, 2, device="cuda") * 2 - 1
    size, ptr, mean_r = 0, 0, []
    for step in range(40):
        with torch.no_grad():
            obs = observe(state)
            act, _ = actor(obs)
            state, rew = pendulum_step(state, act)
            idx = (ptr + torch.arange(envs, device="cuda")) % cap
            for k, v in zip("oarn", (obs, act, rew[:, None] / 8, observe(state))):
                buf[k][idx] = v
            ptr, size = (ptr + envs) % cap, min(size + envs, cap)
        mean_r.append(rew.mean())
        pick = torch.randint(0, size, (4096,), device="cuda")
        o, a, r, n = (buf[k][pick] for k in "oarn")
        lc = critic_loss(o, a, r.squeeze(1), n)
        oc.zero_grad()
        lc.backward()
        oc.step()
        la = actor_loss(o)
        oa.zero_grad()
        la.backward()
        oa.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(target.parameters()), list(critic.parameters()), 0.01)
    print(
        "mean reward %.4f" % torch.stack(mean_r).mean().item(),
        "critic loss %.5f alpha %.4f" % (lc.item(), log_alpha.exp().item()),
    )


if __name__ == "__main__":
    main()
