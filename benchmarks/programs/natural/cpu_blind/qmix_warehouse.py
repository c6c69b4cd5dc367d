"""QMIX for a small team of warehouse pickers: recurrent agents, a monotonic mixing network,
episode replay, double Q-learning.  The environment is vectorised over episodes."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

AGENTS, GRID, T = 4, 7, 24
MOVES = torch.tensor([[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]])
ACTIONS = len(MOVES)
OBS = 2 + 2 * AGENTS + AGENTS  # own cell, relative boxes, which boxes are still there
STATE = AGENTS * 5


class Warehouse:
    """Boxes vanish when an agent stands on them; the team is paid once per box, less for collisions."""

    def __init__(self, n):
        self.n = n
        self.pos = torch.randint(0, GRID, (n, AGENTS, 2))
        self.box = torch.randint(0, GRID, (n, AGENTS, 2))
        self.left = torch.ones(n, AGENTS, dtype=torch.bool)
        self.done = torch.zeros(n, dtype=torch.bool)

    def obs(self):
        rel = (self.box[:, None] - self.pos[:, :, None]).float() / GRID
        rel = rel * self.left[:, None, :, None]
        left = self.left[:, None].expand(-1, AGENTS, -1).float()
        return torch.cat([self.pos.float() / GRID, rel.flatten(2), left], -1)

    def state(self):
        return torch.cat([self.pos.flatten(1) / GRID, self.box.flatten(1) / GRID, self.left.float()], -1)

    def avail(self):
        nxt = self.pos[:, :, None] + MOVES
        return ((nxt >= 0) & (nxt < GRID)).all(-1)

    def step(self, a):
        self.pos = torch.where(self.done[:, None, None], self.pos, self.pos + MOVES[a])
        hit = (self.pos[:, :, None] == self.box[:, None]).all(-1).any(1) & self.left
        cell = self.pos[..., 0] * GRID + self.pos[..., 1]
        crowd = (cell[:, :, None] == cell[:, None]).sum((1, 2)) - AGENTS
        r = (hit.sum(1).float() - 0.02 * crowd - 0.02) * ~self.done
        self.left &= ~hit
        self.done |= ~self.left.any(1)
        return r, self.done.clone()


class Agent(nn.Module):
    def __init__(self, hid=64):
        super().__init__()
        self.inp = nn.Linear(OBS + ACTIONS + AGENTS, hid)
        self.rnn = nn.GRUCell(hid, hid)
        self.out = nn.Linear(hid, ACTIONS)
        self.hid = hid

    def forward(self, obs, last, h):
        b = obs.shape[0]
        ident = torch.eye(AGENTS).expand(b, -1, -1)
        x = torch.cat([obs, F.one_hot(last, ACTIONS).float(), ident], -1).flatten(0, 1)
        h = self.rnn(F.relu(self.inp(x)), h)
        return self.out(h).view(b, AGENTS, ACTIONS), h


class Mixer(nn.Module):
    def __init__(self, emb=32):
        super().__init__()
        self.w1 = nn.Sequential(nn.Linear(STATE, 64), nn.ReLU(), nn.Linear(64, AGENTS * emb))
        self.w2 = nn.Sequential(nn.Linear(STATE, 64), nn.ReLU(), nn.Linear(64, emb))
        self.b1 = nn.Linear(STATE, emb)
        self.v = nn.Sequential(nn.Linear(STATE, emb), nn.ReLU(), nn.Linear(emb, 1))
        self.emb = emb

    def forward(self, q, s):
        shape = q.shape[:2]
        q, s = q.reshape(-1, 1, AGENTS), s.reshape(-1, STATE)
        w1 = self.w1(s).abs().view(-1, AGENTS, self.emb)
        hidden = F.elu(torch.bmm(q, w1) + self.b1(s)[:, None])
        w2 = self.w2(s).abs().view(-1, self.emb, 1)
        return (torch.bmm(hidden, w2) + self.v(s)[:, None]).view(shape)


def unroll(agent, obs, act):
    h = obs.new_zeros(obs.shape[0] * AGENTS, agent.hid)
    last = torch.zeros_like(act[:, 0])
    qs = []
    for t in range(obs.shape[1]):
        q, h = agent(obs[:, t], last, h)
        qs.append(q)
        if t < act.shape[1]:
            last = act[:, t]
    return torch.stack(qs, 1)


@torch.compile
def td_loss(agent, mixer, t_agent, t_mixer, b, gamma=0.97):
    q = unroll(agent, b["obs"], b["act"])
    with torch.no_grad():
        tq = unroll(t_agent, b["obs"], b["act"])
        best = q.detach().masked_fill(~b["avail"], -1e9).argmax(-1, keepdim=True)
        nxt = t_mixer(tq.gather(-1, best).squeeze(-1)[:, 1:], b["state"][:, 1:])
        target = b["rew"] + gamma * (1 - b["done"]) * nxt
    chosen = q[:, :-1].gather(-1, b["act"][..., None]).squeeze(-1)
    td = (mixer(chosen, b["state"][:, :-1]) - target) * b["mask"]
    return td.square().sum() / b["mask"].sum()


@torch.no_grad()
def rollout(agent, n, eps):
    env = Warehouse(n)
    h = torch.zeros(n * AGENTS, agent.hid)
    last = torch.zeros(n, AGENTS, dtype=torch.long)
    ep = {k: [] for k in ("obs", "state", "avail", "act", "rew", "done", "mask")}
    for _ in range(T):
        o, av, running = env.obs(), env.avail(), ~env.done
        for k, v in (("obs", o), ("state", env.state()), ("avail", av), ("mask", running.float())):
            ep[k].append(v)
        q, h = agent(o, last, h)
        greedy = q.masked_fill(~av, -1e9).argmax(-1)
        rand = torch.multinomial(av.flatten(0, 1).float(), 1).view(n, AGENTS)
        last = torch.where(torch.rand(n, AGENTS) < eps, rand, greedy)
        r, d = env.step(last)
        ep["act"].append(last), ep["rew"].append(r), ep["done"].append(d.float())
    ep["obs"].append(env.obs()), ep["state"].append(env.state()), ep["avail"].append(env.avail())
    return {k: torch.stack(v, 1) for k, v in ep.items()}


def main():
    torch.manual_seed(0)
    agent, mixer = Agent(), Mixer()
    t_agent, t_mixer = copy.deepcopy(agent), copy.deepcopy(mixer)
    params = [*agent.parameters(), *mixer.parameters()]
    opt = torch.optim.RMSprop(params, lr=7e-4, alpha=0.99, eps=1e-5)
    buf, cap = None, 1024
    updates = 0
    for it in range(150):
        eps = max(0.05, 1 - it / 80)
        new = rollout(agent, 16, eps)
        buf = new if buf is None else {k: torch.cat([buf[k], new[k]])[-cap:] for k in buf}
        n = buf["rew"].shape[0]
        idx = torch.randint(n, (min(64, n),))
        batch = {k: v[idx] for k, v in buf.items()}
        loss = td_loss(agent, mixer, t_agent, t_mixer, batch)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 10.0)
        opt.step()
        updates += 1
        if updates % 20 == 0:
            t_agent.load_state_dict(agent.state_dict())
            t_mixer.load_state_dict(mixer.state_dict())
        if (it + 1) % 30 == 0:
            ev = rollout(agent, 128, 0.0)
            print(
                f"update {it + 1:4d} eps {eps:.2f} loss {loss.item():.4f} greedy return "
                f"{ev['rew'].sum(1).mean().item():.3f} cleared {ev['done'][:, -1].mean().item():.2f}"
            )


if __name__ == "__main__":
    main()
