"""Values a book of European options and its Greeks by Black's formula, with a skewed volatility."""

import math

import torch

dev = "cuda"
torch.manual_seed(0)
n = 8_000_000
fwd = torch.rand(n, device=dev) * 80 + 60
strike = torch.rand(n, device=dev) * 80 + 60
tenor = torch.rand(n, device=dev) * 3 + 0.05
atm = torch.rand(n, device=dev) * 0.3 + 0.1
sign = torch.where(torch.rand(n, device=dev) > 0.5, 1.0, -1.0)
size = torch.randn(n, device=dev)


def cdf(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def book(fwd, strike, tenor, atm, sign, size, rate=0.03):
    k = torch.log(strike / fwd)
    vol = atm * (1 - 0.15 * k / torch.sqrt(tenor) + 0.05 * k * k)
    sd = vol * torch.sqrt(tenor)
    d1 = -k / sd + 0.5 * sd
    d2 = d1 - sd
    disc = torch.exp(-rate * tenor)
    price = disc * sign * (fwd * cdf(sign * d1) - strike * cdf(sign * d2))
    pdf = torch.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
    delta = disc * sign * cdf(sign * d1)
    gamma = disc * pdf / (fwd * sd)
    vega = disc * fwd * pdf * torch.sqrt(tenor)
    theta = -0.5 * vega * vol / tenor + rate * price
    return price * size, delta * size, gamma * size, vega * size, theta * size


fast = torch.compile(book)
with torch.no_grad():
    for _ in range(50):
        out = fast(fwd, strike, tenor, atm, sign, size)
print([o.mean().item() for o in out])
