"""Nothing but large matrix products: the library computes them either way."""

import torch
from torch import nn

model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).eval()
compiled = torch.compile(model)
x = torch.randn(256, 1024)
with torch.no_grad():
    for _ in range(15):
        y = compiled(x)
print(y.shape)
