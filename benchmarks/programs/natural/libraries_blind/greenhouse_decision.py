"""Offline reinforcement learning for a greenhouse climate computer with a Decision Transformer.

Logged days from a rule-based grower are cloned with return conditioning; then the model is rolled out in a batch of
simulated greenhouses for several requested returns.
"""

import torch
import torch.nn.functional as F
from transformers import DecisionTransformerConfig, DecisionTransformerModel

STATE, ACT, CONTEXT, DAY = 8, 3, 20, 96  # quarter hours


class Greenhouse:
    """Temperature, humidity, CO2, crop carbon + outside weather; actions: heating, vents, CO2 dosing in [-1, 1]."""

    def __init__(self, n, seed):
        self.n = n
        self.gen = torch.Generator().manual_seed(seed)
        self.t = 0
        self.temp = 16 + 2 * torch.randn(n, generator=self.gen)
        self.hum = 0.7 + 0.05 * torch.randn(n, generator=self.gen)
        self.co2 = torch.full((n,), 420.0)
        self.crop = torch.zeros(n)
        self.cloud = torch.rand(n, generator=self.gen)

    def weather(self):
        hour = torch.tensor(self.t / 4.0)
        sun = torch.clamp(torch.sin((hour - 6) / 12 * torch.pi), min=0) * (1 - 0.7 * self.cloud)
        out = 8 + 5 * torch.sin((hour - 9) / 24 * 2 * torch.pi) - 3 * self.cloud
        return sun, out

    def observe(self):
        sun, out = self.weather()
        phase = torch.full((self.n,), self.t / DAY * 2 * torch.pi)
        cols = [
            self.temp / 20 - 1,
            self.hum,
            self.co2 / 800,
            self.crop,
            sun,
            out / 15,
            phase.sin(),
            phase.cos(),
        ]
        return torch.stack(cols, -1)

    def step(self, action):
        heat, vent, dose = ((action.clamp(-1, 1) + 1) / 2).unbind(-1)
        sun, out = self.weather()
        self.temp = self.temp + 0.8 * heat + 1.2 * sun - (0.03 + 0.12 * vent) * (self.temp - out)
        self.hum = (self.hum + 0.02 * sun - 0.06 * vent * (self.hum - 0.5)).clamp(0.2, 1)
        self.co2 = self.co2 + 60 * dose - (0.05 + 0.3 * vent) * (self.co2 - 400) - 25 * sun
        comfort = torch.exp(-(((self.temp - 21) / 5) ** 2)) * (1 - (self.hum - 0.75).clamp(min=0) * 2)
        growth = sun * self.co2 / (self.co2 + 350) * comfort
        self.crop = self.crop + 0.02 * growth
        self.cloud = (self.cloud + 0.05 * torch.randn(self.n, generator=self.gen)).clamp(0, 1)
        self.t += 1
        return growth - 0.12 * heat - 0.05 * dose


def grower(obs, noise):
    heat = (-obs[:, 0] * 4).clamp(-1, 1)
    vent = (obs[:, 1] * 4 - 3).clamp(-1, 1)
    dose = obs[:, 4] * 2 - 1
    return (torch.stack([heat, vent, dose], -1) + noise * torch.randn(len(obs), ACT)).clamp(-1, 1)


def collect(n):
    env = Greenhouse(n, seed=5)
    noise = torch.rand(n, 1)
    obs, acts, rews = [], [], []
    for _ in range(DAY):
        s = env.observe()
        a = grower(s, noise)
        r = env.step(a)
        obs.append(s), acts.append(a), rews.append(r)
    obs, acts, rews = torch.stack(obs, 1), torch.stack(acts, 1), torch.stack(rews, 1)
    rtg = rews.flip(1).cumsum(1).flip(1)
    return obs, acts, rtg


def sample(data, batch):
    obs, acts, rtg = data
    rows = torch.randint(len(obs), (batch,))
    start = torch.randint(DAY - CONTEXT, (batch,))
    idx = start[:, None] + torch.arange(CONTEXT)
    take = lambda x: x[rows[:, None], idx]
    return take(obs), take(acts), take(rtg)[..., None] / 10, idx


@torch.no_grad()
def rollout(model, target, n, seed):
    env = Greenhouse(n, seed)
    states = torch.zeros(n, 0, STATE)
    actions = torch.zeros(n, 0, ACT)
    rtg = torch.full((n, 1, 1), target / 10)
    total = torch.zeros(n)
    for t in range(DAY):
        states = torch.cat([states, env.observe()[:, None]], 1)
        actions = torch.cat([actions, torch.zeros(n, 1, ACT)], 1)
        timesteps = torch.arange(t + 1).expand(n, -1)
        out = model(
            states=states[:, -CONTEXT:],
            actions=actions[:, -CONTEXT:],
            returns_to_go=rtg[:, -CONTEXT:],
            timesteps=timesteps[:, -CONTEXT:],
            attention_mask=torch.ones(n, min(t + 1, CONTEXT), dtype=torch.long),
        )
        act = out.action_preds[:, -1]
        actions[:, -1] = act
        reward = env.step(act)
        total += reward
        rtg = torch.cat([rtg, rtg[:, -1:] - reward[:, None, None] / 10], 1)
    return total


def main():
    torch.manual_seed(0)
    data = collect(256)
    config = DecisionTransformerConfig(
        state_dim=STATE,
        act_dim=ACT,
        hidden_size=64,
        max_ep_len=DAY,
        n_layer=3,
        n_head=2,
        bos_token_id=None,
        eos_token_id=None,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = DecisionTransformerModel(config)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    policy = torch.compile(model)
    model.train()
    for step in range(60):
        s, a, g, ts = sample(data, 32)
        out = policy(
            states=s,
            actions=a,
            returns_to_go=g,
            timesteps=ts,
            attention_mask=torch.ones(ts.shape, dtype=torch.long),
        )
        loss = F.mse_loss(out.action_preds, a)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 20 == 0 or step == 59:
            print(f"step {step:3d}  action mse {loss.item():.4f}")
    model.eval()
    logged = data[2][:, 0]
    print(f"logged return {logged.mean():.2f} (best {logged.max():.2f})")
    for target in (2.0, 6.0):
        ret = rollout(policy, target, 24, seed=17)
        print(f"asked {target:5.1f}  got {ret.mean():.2f} +- {ret.std():.2f}")


if __name__ == "__main__":
    main()
