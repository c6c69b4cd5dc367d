"""nn.LSTM encoder with attention pooling for load forecasting, training."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Forecaster(nn.Module):
    def __init__(self, feats=8, hidden=64, horizon=24):
        super().__init__()
        self.lstm = nn.LSTM(feats, hidden, num_layers=2, batch_first=True)
        self.score = nn.Linear(hidden, 1)
        self.out = nn.Linear(2 * hidden, horizon * 3)
        self.horizon = horizon

    def forward(self, x):
        h, (last, _) = self.lstm(x)
        w = self.score(torch.tanh(h)).softmax(1)
        pooled = (w * h).sum(1)
        return self.out(torch.cat([pooled, last[-1]], -1)).view(-1, self.horizon, 3)


def pinball(pred, target, quantiles):
    e = target[..., None] - pred
    return torch.maximum(quantiles * e, (quantiles - 1) * e).mean()


def build(device, compiled):
    torch.manual_seed(0)
    model = Forecaster().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    q = torch.tensor([0.1, 0.5, 0.9], device=device)

    def loss_fn(x, y):
        return pinball(model(x), y, q)

    if compiled:
        loss_fn = torch.compile(loss_fn, backend=BACKEND)
    x = torch.randn(pick(32, 2), pick(96, 8), 8, device=device)
    y = torch.randn(x.shape[0], 24, device=device)

    def step():
        optimizer.zero_grad()
        loss = loss_fn(x, y)
        loss.backward()
        optimizer.step()
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
