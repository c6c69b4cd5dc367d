"""Scattering features of textures, then a linear classifier."""

import torch
from kymatio.torch import Scattering2D

torch.manual_seed(0)
scattering = torch.compile(Scattering2D(J=2, shape=(64, 64)))
head = torch.nn.Linear(81, 10)
with torch.no_grad():
    for _ in range(15):
        s = scattering(torch.randn(8, 64, 64))
        logits = head(s.mean((-1, -2)))
print(logits.sum().item())
