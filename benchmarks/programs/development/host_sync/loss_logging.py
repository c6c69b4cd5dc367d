import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x):
        h = torch.tanh(self.a(x))
        self.norm = h.norm().item()
        return self.b(h)


model = torch.compile(Model().eval())
with torch.no_grad():
    for _ in range(60):
        model(torch.randn(32, 64))
