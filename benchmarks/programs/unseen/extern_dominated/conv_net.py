import torch
import torch.nn as nn

torch.manual_seed(0)
m = nn.Sequential(
    nn.Conv2d(32, 64, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1),
).eval()
c = torch.compile(m)
x = torch.randn(4, 32, 56, 56)
with torch.no_grad():
    for i in range(40):
        c(x)
