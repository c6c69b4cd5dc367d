import torch
import torch.nn as nn

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.LayerNorm(64)).eval()
c = torch.compile(m, dynamic=False)
with torch.no_grad():
    for e in range(3):
        for n in (8, 16, 24, 32, 40, 48, 56):
            c(torch.randn(n, 64))
