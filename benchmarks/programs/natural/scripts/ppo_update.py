"""PPO: rollout from a toy vector environment, GAE, and epochs of minibatches (the last one is smaller)."""

import torch
import torch.nn as nn
from torch.distributions import Normal


class ActorCritic(nn.Module):
    def __init__(self, obs=24, act=4, width=256):
        super().__init__()
        self.pi = nn.Sequential(
            nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, act)
        )
        self.v = nn.Sequential(
            nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(self, obs):
        return self.pi(obs), self.log_std.exp(), self.v(obs).squeeze(-1)


net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=3e-4)


def gae(rewards, values, dones, last, gamma=0.99, lam=0.95):
    adv = torch.zeros_like(rewards)
    run = torch.zeros_like(last)
    for t in reversed(range(rewards.shape[0])):
        nxt = last if t == rewards.shape[0] - 1 else values[t + 1]
        delta = rewards[t] + gamma * nxt * (1 - dones[t]) - values[t]
        run = delta + gamma * lam * (1 - dones[t]) * run
        adv[t] = run
    return adv


def ppo_loss(obs, act, old_logp, adv, ret):
    mean, std, value = net(obs)
    dist = Normal(mean, std, validate_args=False)
    ratio = (dist.log_prob(act).sum(-1) - old_logp).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    clip = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
    return -clip.mean() + 0.5 * (value - ret).pow(2).mean() - 0.01 * dist.entropy().sum(-1).mean()


gae_c = torch.compile(gae)
loss_c = torch.compile(ppo_loss)
torch.manual_seed(0)
T, N = 48, 32
obs = torch.randn(N, 24)
for update in range(5):
    O, A, L, V, R, D = [], [], [], [], [], []
    with torch.no_grad():
        for t in range(T):
            mean, std, value = net(obs)
            dist = Normal(mean, std)
            a = dist.sample()
            O.append(obs), A.append(a), L.append(dist.log_prob(a).sum(-1)), V.append(value)
            obs = 0.9 * obs + 0.1 * torch.randn_like(obs) + 0.05 * a.sum(-1, keepdim=True)
            R.append(-obs.pow(2).mean(-1)), D.append((torch.rand(N) < 0.02).float())
        O, A, L, V, R, D = map(torch.stack, (O, A, L, V, R, D))
        adv = gae_c(R, V, D, net(obs)[2])
        ret = adv + V
    flat = [t.flatten(0, 1) for t in (O, A, L, adv, ret)]
    for epoch in range(3):
        for idx in torch.randperm(T * N).split(400):
            loss = loss_c(*(t[idx] for t in flat))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
    print(update, R.mean().item(), loss.item())
