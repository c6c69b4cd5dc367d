import torch
from torch import nn

net = torch.compile(
    nn.Sequential(
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
    ).eval()
)
x = torch.randn(4, 32, 56, 56)
with torch.no_grad():
    for _ in range(15):
        net(x)
