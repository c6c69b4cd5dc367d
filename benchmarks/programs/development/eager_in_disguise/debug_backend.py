import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).eval()
fast = torch.compile(model, backend="eager")
x = torch.randn(64, 256)
with torch.no_grad():
    for _ in range(100):
        fast(x)
