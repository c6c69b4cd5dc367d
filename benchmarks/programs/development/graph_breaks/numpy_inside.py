import torch
from torch import nn


def clip_outliers(values):
    """Done with Python, as somebody did it before."""
    limit = sorted(values.flatten().tolist())[int(values.numel() * 0.99)]
    return values.clamp(max=limit)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 1)

    def forward(self, x):
        h = torch.relu(self.a(x))
        h = clip_outliers(h)
        return self.b(h)


model = torch.compile(Regressor().eval())
with torch.no_grad():
    for _ in range(60):
        model(torch.randn(16, 32))
