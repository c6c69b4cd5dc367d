"""Propagates a catalogue of orbits to one date by solving Kepler's equation with Newton's method."""

import torch


def propagate(a, e, m0, n, t):
    mean = m0 + n * t
    ecc = mean + e * torch.sin(mean)
    for _ in range(5):
        ecc = ecc - (ecc - e * torch.sin(ecc) - mean) / (1 - e * torch.cos(ecc))
    cos_e, sin_e = torch.cos(ecc), torch.sin(ecc)
    root = torch.sqrt(1 - e * e)
    x = a * (cos_e - e)
    y = a * root * sin_e
    speed = n * a / (1 - e * cos_e)
    return x, y, -speed * sin_e, speed * root * cos_e


torch.manual_seed(0)
count = 200_000
a = 0.8 + 2.5 * torch.rand(count)
e = 0.6 * torch.rand(count)
m0 = 6.2831853 * torch.rand(count)
n = a.pow(-1.5)

move = torch.compile(propagate)
with torch.no_grad():
    for day in range(40):
        x, y, vx, vy = move(a, e, m0, n, torch.tensor(0.0172 * day))
print("mean distance", torch.hypot(x, y).mean().item(), "mean speed", torch.hypot(vx, vy).mean().item())
