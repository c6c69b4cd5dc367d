import torch
from torch import nn


class Warmup(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(128, 128)
        self.temperature = 1.0

    def forward(self, x):
        return torch.softmax(self.proj(x) / self.temperature, dim=-1)


model = torch.compile(Warmup().eval())
x = torch.randn(32, 128)
with torch.no_grad():
    for step in range(80):
        if step % 10 == 0:
            model.temperature = 1.0 + step / 10.0 + 0.5
        model(x)
