"""Cumulative log returns and draw-downs of a few long price series."""

import torch


def drawdown(prices):
    log = prices.log()
    total = torch.cumsum(log[:, 1:] - log[:, :-1], dim=1)
    peak = torch.cummax(total, dim=1).values
    return (total - peak).amin(dim=1), total.std(dim=1)


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
prices = torch.rand(3, 2_000_000 if device == "cuda" else 50_000, device=device) + 0.5
fast = torch.compile(drawdown)
with torch.no_grad():
    for _ in range(30):
        worst, spread = fast(prices)
print(worst.tolist(), spread.tolist())
