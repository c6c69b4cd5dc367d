"""DreamerV3-style actor-critic learning from imagined rollouts of an RSSM."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Independent, OneHotCategoricalStraightThrough

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
DETER = max(64, int(1024 * SCALE))
UNITS = max(32, int(640 * SCALE))
STOCH, CLASSES = (32, 32) if not SMALL else (8, 8)
ACTIONS = 18 if not SMALL else 4
STARTS = max(16, int(1024 * SCALE))
HORIZON = 15 if not SMALL else 4
BINS = 255 if not SMALL else 41
GAMMA, LAM, ENT = 0.997, 0.95, 3e-4
STEPS = 40 if not SMALL else 8


def symlog(x):
    return torch.sign(x) * torch.log1p(x.abs())


def symexp(x):
    return torch.sign(x) * torch.expm1(x.abs())


def onehot_dist(logits, unimix=0.01):
    probs = F.softmax(logits, -1)
    probs = (1 - unimix) * probs + unimix / logits.shape[-1]
    return OneHotCategoricalStraightThrough(probs=probs)


class MLP(nn.Module):
    def __init__(self, inp, out, layers=2):
        super().__init__()
        mods = []
        for i in range(layers):
            mods += [
                nn.Linear(inp if i == 0 else UNITS, UNITS, bias=False),
                nn.LayerNorm(UNITS, eps=1e-3),
                nn.SiLU(),
            ]
        self.net = nn.Sequential(*mods, nn.Linear(UNITS, out))

    def forward(self, x):
        return self.net(x)


class LayerNormGRUCell(nn.Module):
    def __init__(self, inp, size):
        super().__init__()
        self.linear = nn.Linear(inp + size, 3 * size, bias=False)
        self.norm = nn.LayerNorm(3 * size, eps=1e-3)

    def forward(self, x, h):
        reset, cand, update = self.norm(self.linear(torch.cat([x, h], -1))).chunk(3, -1)
        cand = torch.tanh(torch.sigmoid(reset) * cand)
        update = torch.sigmoid(update - 1)
        return update * cand + (1 - update) * h


class RSSM(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Sequential(
            nn.Linear(STOCH * CLASSES + ACTIONS, UNITS, bias=False), nn.LayerNorm(UNITS), nn.SiLU()
        )
        self.cell = LayerNormGRUCell(UNITS, DETER)
        self.prior = MLP(DETER, STOCH * CLASSES, 1)
        feat = DETER + STOCH * CLASSES
        self.reward = MLP(feat, BINS)
        self.cont = MLP(feat, 1)

    def img_step(self, state, action):
        x = self.inp(torch.cat([state["stoch"].flatten(1), action], -1))
        deter = self.cell(x, state["deter"])
        logits = self.prior(deter).view(-1, STOCH, CLASSES)
        stoch = Independent(onehot_dist(logits), 1).rsample()
        return {"deter": deter, "stoch": stoch}

    @staticmethod
    def feat(state):
        return torch.cat([state["deter"], state["stoch"].flatten(1)], -1)


class TwoHot:
    def __init__(self, device):
        self.bins = torch.linspace(-20, 20, BINS, device=device)

    def mean(self, logits):
        return symexp((F.softmax(logits.float(), -1) * self.bins).sum(-1))

    def loss(self, logits, target):
        x = symlog(target)
        below = (self.bins <= x[..., None]).sum(-1).sub(1).clamp(0, BINS - 1)
        above = (below + 1).clamp(max=BINS - 1)
        d_below, d_above = (self.bins[below] - x).abs(), (self.bins[above] - x).abs()
        total = (d_below + d_above).clamp(min=1e-8)
        target = (
            F.one_hot(below, BINS) * (d_above / total)[..., None]
            + F.one_hot(above, BINS) * (d_below / total)[..., None]
        )
        return -(target * F.log_softmax(logits.float(), -1)).sum(-1)


class ImaginationBehavior(nn.Module):
    def __init__(self, rssm):
        super().__init__()
        feat = DETER + STOCH * CLASSES
        self.rssm = rssm
        self.actor = MLP(feat, ACTIONS, 3)
        self.critic = MLP(feat, BINS, 3)
        self.slow_critic = MLP(feat, BINS, 3)
        self.slow_critic.load_state_dict(self.critic.state_dict())
        self.slow_critic.requires_grad_(False)
        self.twohot = TwoHot(DEVICE)
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.ones(()))

    def imagine(self, state):
        feats, actions = [], []
        for _ in range(HORIZON + 1):
            feat = self.rssm.feat(state).detach()
            action = onehot_dist(self.actor(feat)).sample()
            feats.append(feat)
            actions.append(action)
            state = self.rssm.img_step(state, action)
        return torch.stack(feats), torch.stack(actions)

    def forward(self, state):
        with torch.no_grad():
            feats, actions = self.imagine(state)
            reward = self.twohot.mean(self.rssm.reward(feats))
            cont = torch.sigmoid(self.rssm.cont(feats)).squeeze(-1) * GAMMA
            value = self.twohot.mean(self.critic(feats))
            ret, returns = value[-1], []
            for t in reversed(range(HORIZON)):
                ret = reward[t] + cont[t] * ((1 - LAM) * value[t + 1] + LAM * ret)
                returns.append(ret)
            returns = torch.stack(returns[::-1])
            weight = torch.cumprod(torch.cat([torch.ones_like(cont[:1]), cont[:-2]]), 0)
            self.low.lerp_(torch.quantile(returns.flatten(), 0.05), 0.01)
            self.high.lerp_(torch.quantile(returns.flatten(), 0.95), 0.01)
            adv = (returns - value[:-1]) / (self.high - self.low).clamp(min=1.0)
            slow = self.twohot.mean(self.slow_critic(feats[:-1]))
        dist = onehot_dist(self.actor(feats[:-1]))
        entropy = dist.entropy()
        actor_loss = (weight * (-dist.log_prob(actions[:-1]) * adv - ENT * entropy)).mean()
        logits = self.critic(feats[:-1])
        critic_loss = (weight * (self.twohot.loss(logits, returns) + self.twohot.loss(logits, slow))).mean()
        return actor_loss, critic_loss, {"return": returns.mean(), "entropy": entropy.mean()}


def main():
    torch.manual_seed(0)
    behavior = ImaginationBehavior(RSSM().requires_grad_(False)).to(DEVICE)
    step_fn = torch.compile(behavior)
    actor_opt = torch.optim.Adam(behavior.actor.parameters(), lr=3e-5, eps=1e-5)
    critic_opt = torch.optim.Adam(behavior.critic.parameters(), lr=3e-5, eps=1e-5)
    t0 = time.time()
    for step in range(STEPS):
        idx = torch.randint(0, CLASSES, (STARTS, STOCH), device=DEVICE)
        start = {
            "deter": torch.tanh(torch.randn(STARTS, DETER, device=DEVICE)),
            "stoch": F.one_hot(idx, CLASSES).float(),
        }
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            actor_loss, critic_loss, metrics = step_fn(start)
        actor_opt.zero_grad()
        critic_opt.zero_grad()
        (actor_loss + critic_loss).backward()
        nn.utils.clip_grad_norm_(behavior.actor.parameters(), 100.0)
        nn.utils.clip_grad_norm_(behavior.critic.parameters(), 100.0)
        actor_opt.step()
        critic_opt.step()
        with torch.no_grad():
            for p, q in zip(behavior.slow_critic.parameters(), behavior.critic.parameters()):
                p.mul_(0.98).add_(q, alpha=0.02)
        if step % 4 == 3:
            logs = {k: round(v.item(), 4) for k, v in metrics.items()}
            print(step, f"actor {actor_loss.item():.5f} critic {critic_loss.item():.4f}", logs)
    print(f"done in {time.time() - t0:.1f} s")


if __name__ == "__main__":
    main()
