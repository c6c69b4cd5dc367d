"""Focuses a radar image by back-projecting range-compressed pulses onto a ground grid."""

import math

import torch

C, FC, BANDWIDTH = 3e8, 9.6e9, 3e8
PULSES, BINS = 64, 1024
SPACING = C / (2 * BANDWIDTH) / 2


def backproject(pulses, antenna, pixels, r0):
    distance = torch.linalg.vector_norm(pixels[:, None, :] - antenna[None, :, :], dim=-1)
    position = (distance - r0) / SPACING
    low = position.floor().clamp(0, BINS - 2)
    frac = position - low
    low = low.long()
    pulse = torch.arange(PULSES)
    a, b = pulses[pulse, low], pulses[pulse, low + 1]
    sample = a + frac * (b - a)
    phase = torch.exp(1j * (4 * math.pi * FC / C) * (distance - r0))
    return (sample * phase).sum(dim=1)


torch.manual_seed(0)
angle = torch.linspace(-0.05, 0.05, PULSES)
antenna = torch.stack(
    [1000 * torch.sin(angle), -1000 * torch.cos(angle), torch.full_like(angle, 300.0)], dim=1
)
gy, gx = torch.meshgrid(torch.linspace(-20, 20, 80), torch.linspace(-20, 20, 100), indexing="ij")
pixels = torch.stack([gx, gy, torch.zeros_like(gx)], dim=-1).reshape(-1, 3)
pulses = torch.randn(PULSES, BINS, dtype=torch.complex64)

focus = torch.compile(backproject)
energy = 0.0
with torch.no_grad():
    for k in range(30):
        image = focus(pulses, antenna, pixels, torch.tensor(1000.0))
        energy += image.abs().max().item()
print("brightest", energy / 30)
