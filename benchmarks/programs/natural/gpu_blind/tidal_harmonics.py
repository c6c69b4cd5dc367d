"""Fits tidal constituents to years of gauge records and returns amplitudes, phases and residuals."""

import math

import torch

dev = "cuda"
torch.manual_seed(0)
hours, stations = 43824, 256
SPEEDS = [
    28.9841042,
    30.0,
    28.4397295,
    15.0410686,
    57.9682084,
    13.9430356,
    86.9523127,
    44.0251729,
    60.0,
    57.4238337,
    28.5125831,
    90.0,
    27.9682084,
    27.8953548,
    16.1391017,
    29.4556253,
    15.0,
    14.4966939,
    15.5854433,
    0.5443747,
    0.0821373,
    0.0410686,
    1.0158958,
    1.0980331,
]
level = torch.randn(hours, stations, device=dev) * 0.1
level += torch.sin(torch.arange(hours, device=dev) * math.radians(SPEEDS[0]))[:, None]


def harmonics(level):
    t = torch.arange(level.shape[0], device=level.device, dtype=torch.float64)
    omega = torch.deg2rad(torch.tensor(SPEEDS, device=level.device, dtype=torch.float64))
    arg = t[:, None] * omega
    A = torch.cat([torch.ones_like(t)[:, None], torch.cos(arg), torch.sin(arg)], 1)
    y = level.to(A.dtype)
    coef = torch.linalg.solve(A.T @ A, A.T @ y)
    c, s = coef[1:].chunk(2)
    resid = y - A @ coef
    return torch.hypot(c, s), torch.rad2deg(torch.atan2(s, c)) % 360, resid.std(0)


fast = torch.compile(harmonics)
with torch.no_grad():
    for _ in range(40):
        amp, phase, noise = fast(level)
print(amp[0].mean().item(), noise.mean().item())
