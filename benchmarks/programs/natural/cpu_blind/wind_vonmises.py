"""Scores wind directions under a mixture of von Mises laws and returns the scores of their concentrations."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class DirectionMixture(nn.Module):
    def __init__(self, features=12, components=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 4 * components))

    def forward(self, weather, theta):
        weight, c, s, raw = self.net(weather).chunk(4, dim=-1)
        mu = torch.atan2(s, c)
        kappa = F.softplus(raw) + 1e-3
        align = torch.cos(theta[:, None] - mu)
        norm = torch.special.i0e(kappa)
        logp = kappa * (align - 1.0) - torch.log(2 * math.pi * norm)
        joint = F.log_softmax(weight, dim=-1) + logp
        total = torch.logsumexp(joint, dim=-1)
        resp = torch.exp(joint - total[:, None])
        ratio = torch.special.i1e(kappa) / norm
        return total, resp * (align - ratio) * -torch.expm1(-kappa)


torch.manual_seed(1)
model = DirectionMixture().eval()
weather = torch.randn(60000, 12)
theta = (torch.rand(60000) * 2 - 1) * math.pi

score = torch.compile(model)
total = 0.0
with torch.no_grad():
    for _ in range(40):
        loglik, slope = score(weather, theta)
        total += loglik.mean().item()
print("mean log-likelihood", total / 40, "mean slope", slope.mean().item())
