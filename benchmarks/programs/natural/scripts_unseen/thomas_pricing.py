"""Prices American puts by Crank-Nicolson: a tridiagonal system for each step, solved by Thomas' algorithm."""

import torch


def thomas(a, b, c, d):
    n = d.shape[-1]
    cp, dp = [c[0] / b[0]], [d[..., 0] / b[0]]
    for i in range(1, n):
        m = b[i] - a[i] * cp[-1]
        cp.append(c[i] / m)
        dp.append((d[..., i] - a[i] * dp[-1]) / m)
    x = [dp[-1]]
    for i in range(n - 2, -1, -1):
        x.append(dp[i] - cp[i] * x[-1])
    return torch.stack(x[::-1], -1)


def step(v, payoff, a, b, c):
    rhs = v.clone()
    rhs[..., 1:-1] = v[..., 1:-1] + 0.5 * (v[..., 2:] - 2 * v[..., 1:-1] + v[..., :-2]) * 0.1
    return torch.maximum(thomas(a, b, c, rhs), payoff)


S = torch.linspace(1, 200, 40)
strikes = torch.linspace(60, 140, 500)[:, None]
payoff = (strikes - S).clamp(min=0)
a, b, c = torch.full((40,), -0.05), torch.full((40,), 1.1), torch.full((40,), -0.05)
fast = torch.compile(step)
v = payoff.clone()
for _ in range(60):
    v = fast(v, payoff, a, b, c)
print(v[::100, 20])
