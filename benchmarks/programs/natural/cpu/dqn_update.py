"""Double DQN with a duelling head, target network and Huber loss."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Dueling(nn.Module):
    def __init__(self, obs=64, actions=12, hidden=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value, self.adv = nn.Linear(hidden, 1), nn.Linear(hidden, actions)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


def td_loss(online, target, obs, action, reward, nxt, done, weight, gamma=0.99):
    q = online(obs).gather(1, action[:, None]).squeeze(1)
    with torch.no_grad():
        best = online(nxt).argmax(1, keepdim=True)
        y = reward + gamma * (1 - done) * target(nxt).gather(1, best).squeeze(1)
    error = q - y
    return (weight * F.smooth_l1_loss(q, y, reduction="none")).mean(), error.detach().abs() + 1e-5


def build(device, compiled):
    torch.manual_seed(0)
    online, target = Dueling().to(device), Dueling().to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    n = pick(256, 8)
    obs, nxt = torch.randn(2, n, 64, device=device)
    action, reward = torch.randint(12, (n,), device=device), torch.randn(n, device=device)
    done, weight = (torch.rand(n, device=device) < 0.05).float(), torch.rand(n, device=device)
    loss_fn = torch.compile(td_loss, backend=BACKEND) if compiled else td_loss

    def step():
        loss, _ = loss_fn(online, target, obs, action, reward, nxt, done, weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, t in zip(online.parameters(), target.parameters()):
                t.lerp_(p, 0.005)
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
