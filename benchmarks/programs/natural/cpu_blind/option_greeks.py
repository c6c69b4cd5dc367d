"""Prices a book of European options and their greeks with the Black-Scholes formulas."""

import math

import torch


def cdf(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2.0)))


def greeks(spot, strike, expiry, vol, rate):
    root = vol * torch.sqrt(expiry)
    d1 = (torch.log(spot / strike) + (rate + 0.5 * vol * vol) * expiry) / root
    d2 = d1 - root
    discount = torch.exp(-rate * expiry)
    density = torch.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
    price = spot * cdf(d1) - strike * discount * cdf(d2)
    delta = cdf(d1)
    gamma = density / (spot * root)
    vega = spot * density * torch.sqrt(expiry)
    theta = -spot * density * vol / (2 * torch.sqrt(expiry)) - rate * strike * discount * cdf(d2)
    return price, delta, gamma, vega, theta


torch.manual_seed(0)
n = 300_000
spot = 80 + 40 * torch.rand(n)
strike = 80 + 40 * torch.rand(n)
expiry = 0.1 + 2 * torch.rand(n)
vol = 0.1 + 0.4 * torch.rand(n)

value = torch.compile(greeks)
total = 0.0
with torch.no_grad():
    for _ in range(50):
        price, delta, gamma, vega, theta = value(spot, strike, expiry, vol, 0.03)
        total += price[:100].sum().item()
print("book", total / 50, "delta", delta.mean().item())
