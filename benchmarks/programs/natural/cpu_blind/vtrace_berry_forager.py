"""IMPALA-style actor/learner with V-trace on a vectorised grid world: a forager picks berries and avoids pits."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

SIZE, ENVS, UNROLL, UPDATES = 9, 48, 20, 25
GAMMA, RHO_BAR, C_BAR = 0.97, 1.0, 1.0
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class ForagerEnv:
    def __init__(self, n, seed):
        self.n, self.gen = n, torch.Generator().manual_seed(seed)
        self.rows = torch.arange(n)
        self.agent = torch.zeros(n, 2, dtype=torch.long)
        self.berries = torch.zeros(n, SIZE, SIZE)
        self.pits = torch.zeros(n, SIZE, SIZE)
        self.age = torch.zeros(n, dtype=torch.long)
        self.reset(torch.ones(n, dtype=torch.bool))

    def reset(self, which):
        k = int(which.sum())
        if k == 0:
            return
        self.berries[which] = (torch.rand(k, SIZE, SIZE, generator=self.gen) < 0.15).float()
        self.pits[which] = (torch.rand(k, SIZE, SIZE, generator=self.gen) < 0.06).float()
        self.agent[which] = torch.randint(0, SIZE, (k, 2), generator=self.gen)
        self.age[which] = 0

    def observe(self):
        me = torch.zeros(self.n, SIZE, SIZE)
        me[self.rows, self.agent[:, 0], self.agent[:, 1]] = 1
        return torch.stack([me, self.berries, self.pits], dim=1)

    def step(self, action):
        self.agent = (self.agent + MOVES[action]).clamp_(0, SIZE - 1)
        r, c = self.agent[:, 0], self.agent[:, 1]
        reward = self.berries[self.rows, r, c] - 0.01
        fell = self.pits[self.rows, r, c] > 0
        reward = torch.where(fell, reward - 1, reward)
        self.berries[self.rows, r, c] = 0
        self.age += 1
        done = fell | (self.age >= 60)
        self.reset(done)
        return self.observe(), reward, done


class ActorCritic(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.res1 = nn.Conv2d(width, width, 3, padding=1)
        self.res2 = nn.Conv2d(width, width, 3, padding=1)
        self.fc = nn.Linear(width * SIZE * SIZE, 128)
        self.pi, self.v = nn.Linear(128, 4), nn.Linear(128, 1)

    def forward(self, obs):
        x = F.relu(self.stem(obs))
        x = x + self.res2(F.relu(self.res1(x)))
        x = F.relu(self.fc(F.relu(x).flatten(1)))
        return self.pi(x), self.v(x).squeeze(-1)


def act(net, obs):
    with torch.no_grad():
        logits, _ = net(obs)
        dist = Categorical(logits=logits)
        a = dist.sample()
        return a, dist.log_prob(a)


def vtrace(log_rhos, rewards, discounts, values, bootstrap):
    rhos = log_rhos.exp()
    clipped, cs = rhos.clamp(max=RHO_BAR), rhos.clamp(max=C_BAR)
    next_values = torch.cat([values[1:], bootstrap[None]])
    deltas = clipped * (rewards + discounts * next_values - values)
    acc = torch.zeros_like(bootstrap)
    out = []
    for t in reversed(range(values.shape[0])):
        acc = deltas[t] + discounts[t] * cs[t] * acc
        out.append(acc)
    vs = torch.stack(out[::-1]) + values
    next_vs = torch.cat([vs[1:], bootstrap[None]])
    adv = clipped * (rewards + discounts * next_vs - values)
    return vs.detach(), adv.detach()


def learner_loss(net, obs, actions, behaviour_logp, rewards, done, entropy_cost):
    T, B = actions.shape
    logits, values = net(obs.flatten(0, 1))
    logits, values = logits.view(T + 1, B, -1)[:-1], values.view(T + 1, B)
    dist = Categorical(logits=logits)
    logp = dist.log_prob(actions)
    discounts = GAMMA * (~done).float()
    with torch.no_grad():
        vs, adv = vtrace(logp - behaviour_logp, rewards, discounts, values[:-1], values[-1])
    pg = -(logp * adv).mean()
    baseline = 0.5 * (vs - values[:-1]).pow(2).mean()
    entropy = dist.entropy().mean()
    return pg + 0.5 * baseline - entropy_cost * entropy, entropy


def main():
    torch.manual_seed(0)
    learner, actor = ActorCritic(), ActorCritic()
    actor.load_state_dict(learner.state_dict())
    actor_step, loss_fn = torch.compile(act), torch.compile(learner_loss)
    opt = torch.optim.RMSprop(learner.parameters(), lr=6e-4, eps=0.01, alpha=0.99)
    env = ForagerEnv(ENVS, seed=1)
    obs = env.observe()
    for update in range(UPDATES):
        frames, acts, logps, rews, dones = [obs], [], [], [], []
        for _ in range(UNROLL):
            a, lp = actor_step(actor, obs)
            obs, r, d = env.step(a)
            frames.append(obs)
            acts.append(a)
            logps.append(lp)
            rews.append(r)
            dones.append(d)
        entropy_cost = 0.02 * (1 - update / UPDATES)
        loss, ent = loss_fn(
            learner,
            torch.stack(frames),
            torch.stack(acts),
            torch.stack(logps),
            torch.stack(rews),
            torch.stack(dones),
            entropy_cost,
        )
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 40.0)
        opt.step()
        if update % 2 == 1:  # actors lag behind the learner
            actor.load_state_dict(learner.state_dict())
        if update % 5 == 4:
            print(
                f"update {update + 1:3d} loss {loss.item():+.4f} entropy {ent.item():.3f} "
                f"reward/step {torch.stack(rews).mean().item():+.4f}"
            )


if __name__ == "__main__":
    main()
