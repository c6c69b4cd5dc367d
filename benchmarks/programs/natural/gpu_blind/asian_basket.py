"""Prices an Asian basket option by Monte Carlo with correlated normals and antithetic paths."""

import torch

dev = "cuda"
torch.manual_seed(0)
paths, steps, assets = 65536, 64, 8
corr = torch.full((assets, assets), 0.4, device=dev) + 0.6 * torch.eye(assets, device=dev)
chol = torch.linalg.cholesky(corr)
vol = torch.linspace(0.15, 0.4, assets, device=dev)
spot = torch.linspace(80, 120, assets, device=dev)
share = torch.full((assets,), 1 / assets, device=dev)
rate, expiry, strike = 0.03, 1.0, 100.0
dt = expiry / steps


def average(shocks, spot, vol, share):
    logs = ((rate - 0.5 * vol**2) * dt + vol * dt**0.5 * shocks).cumsum(1)
    return ((spot * torch.exp(logs)) @ share).mean(1)


def price(spot, vol, chol, share):
    z = torch.randn(paths, steps, assets, device=spot.device) @ chol.t()
    up = (average(z, spot, vol, share) - strike).clamp_min(0)
    down = (average(-z, spot, vol, share) - strike).clamp_min(0)
    pay = 0.5 * (up + down) * torch.exp(torch.tensor(-rate * expiry))
    return pay.mean(), pay.std() / paths**0.5


fast = torch.compile(price)
with torch.no_grad():
    for _ in range(50):
        value, error = fast(spot, vol, chol, share)
print(value.item(), error.item())
