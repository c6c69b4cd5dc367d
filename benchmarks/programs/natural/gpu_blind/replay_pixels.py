"""Double DQN update loop on a device-resident prioritised replay of pixel frames."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

CAPACITY = max(512, int(40000 * SCALE))
BATCH = max(16, int(128 * min(1.0, SCALE * 4)))
ACTIONS = 18
GAMMA = 0.99
ALPHA, BETA = 0.6, 0.4
TARGET_EVERY = 20
STEPS = 50


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
        )
        self.value = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 1))
        self.adv = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, ACTIONS))

    def forward(self, x):
        h = self.conv(x).flatten(1)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=1, keepdim=True)


class Replay:
    def __init__(self, capacity, device):
        self.capacity = capacity
        self.obs = torch.randint(0, 256, (capacity, 4, 84, 84), dtype=torch.uint8, device=device)
        self.next_obs = torch.randint(0, 256, (capacity, 4, 84, 84), dtype=torch.uint8, device=device)
        self.action = torch.randint(0, ACTIONS, (capacity,), device=device)
        self.reward = torch.randn(capacity, device=device).clamp(-1, 1)
        self.done = (torch.rand(capacity, device=device) < 0.01).float()
        self.priority = torch.ones(capacity, device=device)
        self.head = 0

    def add(self, obs, action, reward, next_obs, done):
        n = obs.shape[0]
        sl = slice(self.head, self.head + n)
        self.obs[sl], self.next_obs[sl] = obs, next_obs
        self.action[sl], self.reward[sl], self.done[sl] = action, reward, done
        self.priority[sl] = self.priority.max()
        self.head = (self.head + n) % (self.capacity - n)

    def sample(self, batch):
        p = self.priority.pow(ALPHA)
        idx = torch.multinomial(p, batch, replacement=True)
        w = (self.capacity * p[idx] / p.sum()).pow(-BETA)
        return idx, w / w.max()

    def update(self, idx, td):
        self.priority[idx] = td.abs() + 1e-3


online = QNet().to(DEVICE)
target = QNet().to(DEVICE)


@torch.compile(mode="reduce-overhead")
def td_loss(obs, action, reward, next_obs, done, idx, weight):
    o = obs[idx].float() / 255.0
    n = next_obs[idx].float() / 255.0
    q = online(o).gather(1, action[idx].unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = online(n).argmax(dim=1, keepdim=True)
        nq = target(n).gather(1, best).squeeze(1)
        y = reward[idx] + GAMMA * (1 - done[idx]) * nq
    loss = (weight * F.smooth_l1_loss(q, y, reduction="none")).mean()
    return loss, (y - q).detach()


def main():
    torch.manual_seed(5)
    target.load_state_dict(online.state_dict())
    for p in target.parameters():
        p.requires_grad_(False)
    opt = torch.optim.Adam(online.parameters(), lr=1e-4, eps=1.5e-4)
    buf = Replay(CAPACITY, DEVICE)
    fresh_obs = torch.randint(0, 256, (8, 4, 84, 84), dtype=torch.uint8, device=DEVICE)
    fresh_act = torch.randint(0, ACTIONS, (8,), device=DEVICE)
    fresh_rew = torch.zeros(8, device=DEVICE)

    running = torch.zeros((), device=DEVICE)
    for step in range(STEPS):
        if step == 10:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        buf.add(fresh_obs, fresh_act, fresh_rew, fresh_obs.flip(-1), fresh_rew)
        idx, w = buf.sample(BATCH)
        loss, td = td_loss(buf.obs, buf.action, buf.reward, buf.next_obs, buf.done, idx, w)
        opt.zero_grad()
        loss.backward()
        opt.step()
        buf.update(idx, td)
        running += loss.detach()
        if (step + 1) % TARGET_EVERY == 0:
            target.load_state_dict(online.state_dict())
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    print(f"{(time.perf_counter() - t0) / (STEPS - 10) * 1e3:.2f} ms per update")
    print(f"mean loss {running.item() / STEPS:.5f}  max priority {buf.priority.max().item():.4f}")


if __name__ == "__main__":
    main()
