"""Survival regression: Cox' partial likelihood over sorted times, with a small network and censored patients."""

import torch
import torch.nn as nn


class Risk(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.SELU(), nn.BatchNorm1d(64), nn.Linear(64, 1))

    def forward(self, x, time, event):
        risk = self.net(x).squeeze(-1)
        order = time.argsort(descending=True)
        risk, event = risk[order], event[order]
        return -((risk - risk.logcumsumexp(0)) * event).sum() / event.sum()


torch.manual_seed(0)
x = torch.randn(20000, 20)
time = torch.exp(-x[:, 0] + 0.3 * torch.randn(20000))
event = (torch.rand(20000) < 0.7).float()
model = Risk()
loss_of = torch.compile(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(25):
    loss = loss_of(x, time, event)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
