"""Trains a network that predicts from hand and object features whether a robot's grasp will hold."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraspNet(nn.Module):
    def __init__(self, inputs=96, width=384):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.norm1 = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.last = nn.Linear(width, 2)

    def forward(self, x):
        x = F.silu(self.norm1(self.first(x)))
        x = x + F.silu(self.norm2(self.second(x)))
        return self.last(x)


def loss_of(model, x, held, force):
    out = model(x)
    hold = F.binary_cross_entropy_with_logits(out[:, 0], held)
    return hold + 0.3 * F.smooth_l1_loss(F.softplus(out[:, 1]), force)


torch.manual_seed(0)
model = GraspNet()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(2048, 96)
held = (x[:, :8].sum(1) > 0).float()
force = x[:, 8:12].abs().sum(1)

compiled = torch.compile(loss_of)
for _ in range(50):
    optimiser.zero_grad(set_to_none=True)
    loss = compiled(model, x, held, force)
    loss.backward()
    optimiser.step()
print("loss", loss.item())
