"""Rolling z-scores, exponential averages and crossover signals of a price panel."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def ewm(x, alpha):
    weights = (1 - alpha) ** torch.arange(64, device=x.device).flip(0)
    weights = weights / weights.sum()
    return F.conv1d(F.pad(x[:, None], (63, 0), mode="replicate"), weights[None, None])[:, 0]


def signals(price, window=50):
    ret = F.pad(price[:, 1:] / price[:, :-1] - 1, (1, 0))
    w = F.pad(ret, (window - 1, 0)).unfold(1, window, 1)
    z = (ret - w.mean(-1)) / (w.std(-1) + 1e-8)
    fast, slow = ewm(price, 0.2), ewm(price, 0.05)
    cross = (fast > slow) ^ (fast.roll(1, 1) > slow.roll(1, 1))
    high = F.max_pool1d(price[:, None], window, 1, window // 2)[:, 0, : price.shape[1]]
    position = torch.tanh(z).where(cross, torch.zeros_like(z)).cumsum(1).clamp(-1, 1)
    pnl = (position[:, :-1] * ret[:, 1:]).sum(1)
    sharpe = pnl / (position[:, :-1] * ret[:, 1:]).std(1).clamp(min=1e-8)
    return sharpe, (price / high).min(1).values


def build(device, compiled):
    torch.manual_seed(0)
    price = 100 * torch.exp(torch.cumsum(0.01 * torch.randn(pick(40, 4), pick(2000, 128), device=device), 1))
    run = torch.compile(signals, backend=BACKEND) if compiled else signals

    def step():
        return run(price)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
