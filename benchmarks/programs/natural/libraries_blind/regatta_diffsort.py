"""Handicaps of sailing boats from finishing orders only, with a differentiable sorting network (diffsort).

Each race has 16 boats with measurements (length, sail area, weight, crew, age) and conditions (wind, sea state).
The net predicts a speed per boat; the sorting network turns speeds into a relaxed permutation, which is compared with
the observed finishing order.
"""

import torch
import torch.nn.functional as F
from diffsort import DiffSortNet
from torch import nn

BOATS = 16
RACES = 96
STEPS = 280
FEATURES = 8


def true_speed(x):
    length, sail, weight, crew, age, wind, sea, start = x.unbind(-1)
    hull = 1.3 * torch.sqrt((length + 3).clamp_min(0.1))
    power = torch.tanh(0.8 * sail + 0.5 * wind) - 0.3 * weight * (1 + 0.5 * torch.tanh(-wind))
    return hull + power + 0.35 * crew - 0.15 * age.abs() - 0.2 * sea * torch.relu(1 - length) - 0.1 * start


def sample_races(n):
    x = torch.randn(n, BOATS, FEATURES)
    x[..., 5:7] = torch.randn(n, 1, 2)  # wind and sea are common to a race
    speed = true_speed(x) + 0.1 * torch.randn(n, BOATS)
    order = torch.argsort(speed, dim=-1)  # slowest first, the same as the network sorts (ascending)
    return x, order


class SpeedNet(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.inp = nn.Linear(FEATURES, hidden)
        self.hidden = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(2)])
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = F.silu(self.inp(x))
        for layer in self.hidden:
            h = h + F.silu(layer(h))
        return self.out(h).squeeze(-1)


class OrderLoss(nn.Module):
    def __init__(self, net, sorter):
        super().__init__()
        self.net = net
        self.sorter = sorter

    def forward(self, x, order):
        speed = self.net(x)
        _, perm = self.sorter(speed)
        # perm[b, i, j]: probability that boat i stands at place j
        target = F.one_hot(order, BOATS).transpose(1, 2).to(perm.dtype)
        return F.binary_cross_entropy(perm.clamp(1e-6, 1 - 1e-6), target)


@torch.no_grad()
def evaluate(net, n=400):
    x, order = sample_races(n)
    rank_true = torch.argsort(order, -1).float()
    rank_pred = torch.argsort(torch.argsort(net(x), -1), -1).float()
    centred = (rank_true - rank_true.mean(-1, keepdim=True)) * (rank_pred - rank_pred.mean(-1, keepdim=True))
    spearman = centred.mean() / rank_true.var(-1, unbiased=False).mean()
    winner = (rank_true.argmax(-1) == rank_pred.argmax(-1)).float().mean()
    return spearman.item(), winner.item()


def main():
    torch.manual_seed(21)
    net = SpeedNet()
    sorter = DiffSortNet("bitonic", BOATS, steepness=12.0, distribution="cauchy")
    criterion = torch.compile(OrderLoss(net, sorter))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
    print("before: spearman {:.3f}, winner found {:.3f}".format(*evaluate(net)))
    total = 0.0
    for step in range(1, STEPS + 1):
        x, order = sample_races(RACES)
        loss = criterion(x, order)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
        if step % 35 == 0:
            print(f"step {step}: order loss {total.item() / 35:.4f}")
            total = 0.0
    print("after:  spearman {:.3f}, winner found {:.3f}".format(*evaluate(net)))


if __name__ == "__main__":
    main()
