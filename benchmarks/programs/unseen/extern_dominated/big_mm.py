import torch
import torch.nn as nn

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).eval()
c = torch.compile(m)
x = torch.randn(256, 1024)
with torch.no_grad():
    for i in range(60):
        c(x)
