import torch
from torch import nn

model = torch.compile(
    nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64)).eval(), dynamic=False
)
with torch.no_grad():
    for step in range(60):
        length = [17, 23, 31, 40, 52, 64][step % 6]
        model(torch.randn(8, length, 64))
