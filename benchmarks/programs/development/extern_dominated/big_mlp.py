import torch
from torch import nn

mlp = nn.Sequential(
    nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1024)
).eval()
mlp = torch.compile(mlp)
x = torch.randn(256, 1024)
with torch.no_grad():
    for _ in range(15):
        mlp(x)
