"""Fits a self-exciting point process: log-likelihood of event times with exponential kernels, all pairs."""

import torch

torch.manual_seed(0)
times = torch.sort(torch.rand(16, 300) * 100, dim=1).values
raw = torch.zeros(3, requires_grad=True)


def loglik(t, raw):
    mu, alpha, beta = torch.nn.functional.softplus(raw).unbind()
    gap = t[:, :, None] - t[:, None, :]
    before = gap > 0
    excited = (alpha * beta * torch.exp(-beta * gap.clamp(min=0)) * before).sum(-1)
    intensity = mu + excited
    compensator = mu * t[:, -1] + alpha * (1 - torch.exp(-beta * (t[:, -1:] - t))).sum(-1)
    return (intensity.log().sum(-1) - compensator).mean()


f = torch.compile(loglik)
opt = torch.optim.Adam([raw], lr=0.05)
for _ in range(30):
    opt.zero_grad()
    loss = -f(times, raw)
    loss.backward()
    opt.step()
print(loss.item(), torch.nn.functional.softplus(raw).tolist())
