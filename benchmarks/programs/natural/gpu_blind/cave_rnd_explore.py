"""Curiosity-driven exploration of caves: PPO with a random-network-distillation bonus.

Thousands of explorers walk in cellular-automaton caves and see only the surroundings of where they stand.  Crystals are
rare, so the policy also gets a bonus for views that the predictor network cannot reproduce yet.  Everything, the caves
included, lives in tensors on one device.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

torch.manual_seed(41)
device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    EXPLORERS, CAVE, VIEW, HORIZON, UPDATES, EPOCHS, MINIBATCH, WIDTH = 4096, 48, 11, 32, 14, 3, 16384, 64
else:
    EXPLORERS, CAVE, VIEW, HORIZON, UPDATES, EPOCHS, MINIBATCH, WIDTH = 16, 16, 7, 8, 2, 2, 64, 8
MOVES = torch.tensor([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0]], device=device)


class Caves:
    def __init__(self, n, size, view):
        self.n, self.size, self.r = n, size, view // 2
        self.rows = torch.arange(n, device=device)
        self.walls = self.carve(n)
        self.crystals = (torch.rand(n, size, size, device=device) < 0.01) & ~self.walls
        self.seen = torch.zeros(n, size, size, dtype=torch.bool, device=device)
        self.position = torch.zeros(n, 2, dtype=torch.long, device=device)
        self.age = torch.randint(0, 200, (n,), device=device)
        self.reset(torch.ones(n, dtype=torch.bool, device=device))

    def carve(self, n):
        rock = (torch.rand(n, 1, self.size, self.size, device=device) < 0.42).float()
        for _ in range(4):
            crowd = F.avg_pool2d(F.pad(rock, [1] * 4, value=1.0), 3, stride=1) * 9
            rock = (crowd >= 5).float()
        rock = rock[:, 0].bool()
        m = self.r
        rock[:, :m], rock[:, -m:], rock[:, :, :m], rock[:, :, -m:] = True, True, True, True
        return rock

    def reset(self, done):
        which = done.nonzero().flatten()
        if len(which) == 0:
            return
        free = (~self.walls[which]).flatten(1).float() + 1e-6
        spot = torch.multinomial(free, 1).flatten()
        self.position[which, 0], self.position[which, 1] = spot // self.size, spot % self.size
        self.position[which] = self.position[which].clamp(self.r, self.size - 1 - self.r)
        self.seen[which] = False
        self.age[which] = 0

    def observe(self):
        off = torch.arange(-self.r, self.r + 1, device=device)
        y = self.position[:, 0, None, None] + off[:, None]
        x = self.position[:, 1, None, None] + off[None, :]
        rows = self.rows[:, None, None]
        planes = [self.walls[rows, y, x], self.crystals[rows, y, x], self.seen[rows, y, x]]
        return torch.stack(planes, 1).float()

    def step(self, action):
        target = self.position + MOVES[action]
        blocked = self.walls[self.rows, target[:, 0], target[:, 1]]
        self.position = torch.where(blocked[:, None], self.position, target)
        y, x = self.position.unbind(1)
        reward = self.crystals[self.rows, y, x].float()
        self.crystals[self.rows, y, x] = False
        self.seen[self.rows, y, x] = True
        self.age += 1
        done = self.age >= 200
        self.reset(done)
        return self.observe(), reward, done.float()


def encoder(width, view):
    layers = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width * ((view + 1) // 2) ** 2, 512),
        nn.ReLU(),
    )
    for layer in layers:
        if hasattr(layer, "weight"):
            nn.init.orthogonal_(layer.weight, 2**0.5)
            nn.init.zeros_(layer.bias)
    return layers


class Explorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = encoder(WIDTH, VIEW)
        self.policy, self.value, self.curious = nn.Linear(512, 5), nn.Linear(512, 1), nn.Linear(512, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)

    def forward(self, obs):
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1), self.curious(h).squeeze(-1)


class RND(nn.Module):
    def __init__(self):
        super().__init__()
        self.target = nn.Sequential(encoder(WIDTH // 2, VIEW), nn.Linear(512, 128)).requires_grad_(False)
        self.guess = nn.Sequential(
            encoder(WIDTH // 2, VIEW), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128)
        )

    def forward(self, obs):
        return (self.guess(obs) - self.target(obs)).pow(2).mean(-1)


def gae(reward, value, last, done, gamma, lam=0.95):
    out, run, following = torch.zeros_like(reward), torch.zeros_like(last), last
    for t in reversed(range(reward.shape[0])):
        alive = 1 - done[t]
        delta = reward[t] + gamma * following * alive - value[t]
        run = delta + gamma * lam * alive * run
        out[t], following = run, value[t]
    return out


def main():
    caves, agent, rnd = Caves(EXPLORERS, CAVE, VIEW), Explorer().to(device), RND().to(device)
    optimizer = torch.optim.Adam([*agent.parameters(), *rnd.guess.parameters()], lr=3e-4, eps=1e-5)
    act = torch.compile(agent, mode="reduce-overhead")

    @torch.compile
    def ppo_loss(obs, action, old_logp, advantage, ret, ret_curious):
        logits, value, curious = agent(obs)
        logp = F.log_softmax(logits, -1)
        ratio = (logp.gather(1, action[:, None])[:, 0] - old_logp).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(0.9, 1.1) * advantage).mean()
        entropy = -(logp.exp() * logp).sum(-1).mean()
        fit = F.mse_loss(value, ret) + F.mse_loss(curious, ret_curious)
        keep = (torch.rand(obs.shape[0], device=obs.device) < 0.25).float()
        novelty = (rnd(obs) * keep).sum() / keep.sum().clamp(min=1)
        return -gain + 0.5 * fit - 0.005 * entropy + novelty

    shape = (HORIZON, EXPLORERS)
    obs_buf = torch.zeros(*shape, 3, VIEW, VIEW, device=device)
    action_buf = torch.zeros(shape, dtype=torch.long, device=device)
    logp_buf, value_buf, curious_buf, reward_buf, done_buf, bonus_buf = (
        torch.zeros(shape, device=device) for _ in range(6)
    )
    obs = caves.observe()
    for update in range(UPDATES):
        with torch.no_grad():
            for t in range(HORIZON):
                obs_buf[t] = obs
                logits, value_buf[t], curious_buf[t] = act(obs)
                dist = Categorical(logits=logits)
                action_buf[t] = dist.sample()
                logp_buf[t] = dist.log_prob(action_buf[t])
                obs, reward_buf[t], done_buf[t] = caves.step(action_buf[t])
                bonus_buf[t] = rnd(obs)
            _, last, last_curious = act(obs)
            bonus = bonus_buf / (bonus_buf.std() + 1e-8)
            adv = gae(reward_buf, value_buf, last, done_buf, 0.999)
            adv_curious = gae(bonus, curious_buf, last_curious, torch.zeros_like(done_buf), 0.99)
            total = 2 * adv + adv_curious
            total = (total - total.mean()) / (total.std() + 1e-8)
        flat = [
            b.flatten(0, 1)
            for b in (obs_buf, action_buf, logp_buf, total, adv + value_buf, adv_curious + curious_buf)
        ]
        for _ in range(EPOCHS):
            for pick in torch.randperm(HORIZON * EXPLORERS, device=device).split(MINIBATCH):
                loss = ppo_loss(*[f[pick] for f in flat])
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(
            f"update {update:2d} crystals/explorer {reward_buf.sum().item() / EXPLORERS:.3f} "
            f"bonus {bonus_buf.mean().item():.5f} loss {loss.item():.4f}"
        )


if __name__ == "__main__":
    main()
