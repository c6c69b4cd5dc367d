"""Reconstructs a slice from ray sums by limited-memory BFGS with the last ten pairs of steps and gradients."""

import torch

torch.manual_seed(0)
RAYS, PIXELS, MEMORY = 2400, 1600, 10
system = (torch.rand(RAYS, PIXELS) < 0.05).float() * torch.rand(RAYS, PIXELS)
truth = torch.rand(PIXELS).clamp(0.3, 0.8)
sums = system @ truth


def gradient(x):
    smooth = torch.zeros_like(x)
    d = x[1:] - x[:-1]
    t = d / torch.sqrt(d * d + 1e-3)
    smooth[1:] += t
    smooth[:-1] -= t
    return (system.t() @ (system @ x - sums)) / RAYS + 1e-5 * smooth


def iterate(x, g, steps, diffs):
    q = g.clone()
    alphas = []
    for s, y in zip(reversed(steps), reversed(diffs)):
        a = (s @ q) / (y @ s)
        q = q - a * y
        alphas.append(a)
    if steps:
        q = q * (steps[-1] @ diffs[-1]) / (diffs[-1] @ diffs[-1])
    for s, y, a in zip(steps, diffs, reversed(alphas)):
        q = q + s * (a - (y @ q) / (y @ s))
    new = x - 0.5 * q
    g_new = gradient(new)
    return new, g_new


iterate_fast = torch.compile(iterate)
x = torch.full((PIXELS,), 0.5)
steps, diffs = [], []
with torch.no_grad():
    g = gradient(x)
    for _ in range(50):
        x_new, g_new = iterate_fast(x, g, steps, diffs)
        steps.append(x_new - x)
        diffs.append(g_new - g)
        steps, diffs = steps[-MEMORY:], diffs[-MEMORY:]
        x, g = x_new, g_new
print("residual", (system @ x - sums).norm().item(), "error", (x - truth).norm().item())
