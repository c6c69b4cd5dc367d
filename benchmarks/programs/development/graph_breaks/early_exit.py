import torch
from torch import nn


class Cascade(nn.Module):
    """Leaves early where the first classifier is sure."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(128, 10)
        self.rest = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 10))

    def forward(self, x):
        y = self.first(x)
        if y.softmax(-1).max() > 0.9:
            return y
        return y + self.rest(x)


model = torch.compile(Cascade().eval())
data = torch.randn(64, 128)
with torch.no_grad():
    for _ in range(100):
        model(data)
