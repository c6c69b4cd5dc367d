"""Learns ballast-pump control of a heeling ship with TD3 whose updates are written over TensorDicts."""

import copy

import torch
import torch.nn as nn
from tensordict import TensorDict, from_module
from tensordict.nn import TensorDictModule, TensorDictSequential

OBS, ACT = 14, 4
GAMMA, TAU = 0.98, 0.01
NOISE, CLIP = 0.2, 0.5


class Critic(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS + ACT, hidden),
            nn.LayerNorm(hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.SiLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], -1)).squeeze(-1)


class Actor(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, ACT),
            nn.Tanh(),
        )

    def forward(self, obs):
        return self.net(obs)


class Ships:
    def __init__(self, n, g):
        self.n, self.g = n, g
        self.a = 0.97 * torch.eye(OBS) + 0.02 * torch.randn(OBS, OBS, generator=g)
        self.b = 0.2 * torch.randn(ACT, OBS, generator=g)
        self.x = torch.randn(n, OBS, generator=g)

    def step(self, act):
        wave = 0.05 * torch.randn(self.n, OBS, generator=self.g)
        nxt = (self.x @ self.a + act @ self.b + wave).clamp(-4, 4)
        reward = -nxt[:, :3].square().sum(-1) - 0.05 * act.square().sum(-1)
        done = nxt[:, 0].abs() > 3.5
        data = TensorDict(
            {"obs": self.x, "action": act, "reward": reward, "next_obs": nxt, "done": done},
            batch_size=[self.n],
        )
        fresh = torch.randn(self.n, OBS, generator=self.g)
        self.x = torch.where(done.unsqueeze(-1), fresh, nxt)
        return data


def main():
    torch.set_num_threads(2)
    torch.manual_seed(21)
    g = torch.Generator().manual_seed(21)

    actor = TensorDictModule(Actor(), in_keys=["obs"], out_keys=["action"])
    q1 = TensorDictModule(Critic(), in_keys=["obs", "action"], out_keys=["q1"])
    q2 = TensorDictModule(Critic(), in_keys=["obs", "action"], out_keys=["q2"])
    critics = TensorDictSequential(q1, q2)
    actor_target = copy.deepcopy(actor).requires_grad_(False)
    critics_target = copy.deepcopy(critics).requires_grad_(False)

    q_opt = torch.optim.Adam(critics.parameters(), lr=5e-4)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=3e-4)

    @torch.compile
    def critic_loss(data):
        with torch.no_grad():
            nxt = TensorDict({"obs": data["next_obs"]}, batch_size=data.batch_size)
            nxt = actor_target(nxt)
            noise = (torch.randn_like(nxt["action"]) * NOISE).clamp(-CLIP, CLIP)
            nxt["action"] = (nxt["action"] + noise).clamp(-1, 1)
            nxt = critics_target(nxt)
            target = torch.minimum(nxt["q1"], nxt["q2"])
            y = data["reward"] + (~data["done"]).float() * GAMMA * target
        out = critics(data.select("obs", "action"))
        return (out["q1"] - y).square().mean() + (out["q2"] - y).square().mean()

    @torch.compile
    def actor_loss(data):
        return -q1(actor(data.select("obs")))["q1"].mean()

    def update_critic(data):
        loss = critic_loss(data)
        q_opt.zero_grad()
        loss.backward()
        q_opt.step()
        return TensorDict(q_loss=loss.detach())

    def update_actor(data):
        loss = actor_loss(data)
        actor_opt.zero_grad()
        loss.backward()
        actor_opt.step()
        return TensorDict(actor_loss=loss.detach())

    actor_params, actor_slow = from_module(actor).data, from_module(actor_target).data
    q_params, q_slow = from_module(critics).data, from_module(critics_target).data

    ships = Ships(128, g)
    capacity, filled, pos = 16384, 0, 0
    storage = ships.step(torch.zeros(128, ACT))[:1].expand(capacity).clone()
    for it in range(180):
        with torch.no_grad():
            act = actor.module(ships.x) if it > 20 else torch.rand(128, ACT, generator=g) * 2 - 1
            act = (act + 0.1 * torch.randn(128, ACT, generator=g)).clamp(-1, 1)
        storage[pos : pos + 128] = ships.step(act)
        pos = (pos + 128) % capacity
        filled = min(filled + 128, capacity)
        if it < 10:
            continue
        logs = update_critic(storage[torch.randint(0, filled, (256,), generator=g)])
        if it % 2 == 0:
            logs.update(update_actor(storage[torch.randint(0, filled, (256,), generator=g)]))
            actor_slow.lerp_(actor_params, TAU)
            q_slow.lerp_(q_params, TAU)
        if it % 60 == 58:
            print(
                it,
                {k: round(v.item(), 3) for k, v in sorted(logs.items())},
                "reward",
                round(storage["reward"][:filled].mean().item(), 3),
            )


if __name__ == "__main__":
    main()
