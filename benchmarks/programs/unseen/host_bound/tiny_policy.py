import torch
import torch.nn as nn

torch.manual_seed(0)
p = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).eval()
c = torch.compile(p)
obs = torch.randn(1, 8)
with torch.no_grad():
    for i in range(2000):
        a = c(obs)
