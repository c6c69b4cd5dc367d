"""Paths of a neural SDE with torchsde."""

import torch
import torchsde
from torch import nn

torch.manual_seed(0)


class SDE(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.mu = torch.compile(nn.Sequential(nn.Linear(8, 64), nn.Softplus(), nn.Linear(64, 8)))
        self.sigma = torch.compile(
            nn.Sequential(nn.Linear(8, 64), nn.Softplus(), nn.Linear(64, 8), nn.Sigmoid())
        )

    def f(self, t, y):
        return self.mu(y)

    def g(self, t, y):
        return 0.1 * self.sigma(y)


sde = SDE()
ts = torch.linspace(0, 1, 20)
opt = torch.optim.Adam(sde.parameters(), 1e-2)
for _ in range(8):
    ys = torchsde.sdeint(sde, torch.randn(256, 8), ts, dt=2e-2, method="euler")
    loss = (ys[-1].mean(0) - 1).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
