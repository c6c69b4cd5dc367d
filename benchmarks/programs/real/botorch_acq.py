"""Optimising an acquisition function of botorch, its evaluation compiled."""

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.rand(60, 6, device=device, dtype=torch.double)
y = (x - 0.4).square().sum(-1, keepdim=True).neg()
model = SingleTaskGP(x, y).eval()
acq = LogExpectedImprovement(model, best_f=y.max())
fast = torch.compile(acq)
candidates = torch.rand(128, 1, 6, device=device, dtype=torch.double, requires_grad=True)
opt = torch.optim.Adam([candidates], lr=0.02)
for step in range(25):
    opt.zero_grad()
    loss = -fast(candidates.clamp(0, 1)).sum()
    loss.backward()
    opt.step()
print(loss.item())
