"""Masked autoregressive flow for tabular density."""

import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation

torch.manual_seed(0)
parts = []
for _ in range(5):
    parts += [
        ReversePermutation(features=16),
        MaskedAffineAutoregressiveTransform(features=16, hidden_features=64),
    ]
flow = Flow(CompositeTransform(parts), StandardNormal([16]))
log_prob = torch.compile(flow.log_prob)
opt = torch.optim.Adam(flow.parameters(), 1e-3)
x = torch.randn(20000, 16).cumsum(1) * 0.3
for i in range(60):
    batch = x[torch.randint(0, len(x), (512,))]
    loss = -log_prob(batch).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
