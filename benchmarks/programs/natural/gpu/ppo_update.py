"""Generalised advantage estimation and a clipped PPO update for a small policy."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class ActorCritic(nn.Module):
    def __init__(self, obs=64, act=8, hidden=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mean, self.value = nn.Linear(hidden, act), nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(self, obs):
        h = self.body(obs)
        return self.mean(h), self.log_std.clamp(-5, 2), self.value(h).squeeze(-1)


def log_prob(mean, log_std, action):
    return (-0.5 * ((action - mean) / log_std.exp()) ** 2 - log_std - 0.9189).sum(-1)


def gae(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = torch.zeros_like(rewards)
    last = torch.zeros_like(rewards[0])
    for t in reversed(range(rewards.shape[0])):
        alive = 1 - dones[t]
        delta = rewards[t] + gamma * values[t + 1] * alive - values[t]
        last = delta + gamma * lam * alive * last
        advantages[t] = last
    return advantages


def ppo_loss(model, obs, actions, old_logp, rewards, values, dones):
    adv = gae(rewards, values, dones)
    returns = adv + values[:-1]
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    mean, log_std, value = model(obs)
    ratio = (log_prob(mean, log_std, actions) - old_logp).exp()
    policy = -torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    entropy = (log_std + 1.4189).sum()
    return policy + 0.5 * F.mse_loss(value, returns) - 0.01 * entropy


def build(device, compiled):
    torch.manual_seed(0)
    steps, envs = pick(48, 6), pick(4096, 4)
    model = ActorCritic().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    loss_fn = torch.compile(ppo_loss, backend=BACKEND) if compiled else ppo_loss
    obs, actions = torch.randn(steps, envs, 64, device=device), torch.randn(steps, envs, 8, device=device)
    old = torch.randn(steps, envs, device=device) * 0.1 - 9
    rewards, values = torch.randn(steps, envs, device=device), torch.randn(steps + 1, envs, device=device)
    dones = (torch.rand(steps, envs, device=device) < 0.02).float()

    def step():
        optimizer.zero_grad()
        loss = loss_fn(model, obs, actions, old, rewards, values, dones)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
