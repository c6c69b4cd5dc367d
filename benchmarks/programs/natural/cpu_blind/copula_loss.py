"""Simulates the losses of a loan book under a Gaussian copula with three factors, for value at risk."""

import torch
import torch.nn as nn


class LoanBook(nn.Module):
    def __init__(self, names=300, factors=3):
        super().__init__()
        gen = torch.Generator().manual_seed(7)
        loadings = 0.3 * torch.rand(names, factors, generator=gen)
        pd = 0.005 + 0.05 * torch.rand(names, generator=gen)
        self.register_buffer("loadings", loadings)
        self.register_buffer("idiosyncratic", torch.sqrt(1 - (loadings**2).sum(1)))
        self.register_buffer("threshold", torch.special.ndtri(pd))
        self.register_buffer("exposure", 1e5 + 1e6 * torch.rand(names, generator=gen))

    def forward(self, scenarios: int):
        market = torch.randn(scenarios, self.loadings.shape[1])
        own = torch.randn(scenarios, self.loadings.shape[0])
        asset = market @ self.loadings.t() + self.idiosyncratic * own
        severity = 0.45 + 0.1 * torch.randn(scenarios, self.loadings.shape[0])
        loss = torch.where(asset < self.threshold, severity.clamp(0, 1) * self.exposure, 0.0)
        return loss.sum(dim=1)


torch.manual_seed(0)
book = torch.compile(LoanBook())
worst = []
with torch.no_grad():
    for _ in range(30):
        loss = book(4000)
        worst.append(loss.topk(40).values[-1])
print("value at risk 99%", torch.stack(worst).mean().item())
