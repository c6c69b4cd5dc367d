"""Nothing but large matrix products: the library computes them either way."""

import torch
from torch import nn

model = nn.Sequential(*(nn.Linear(1536, 1536) for _ in range(4))).eval()
compiled = torch.compile(model)
x = torch.randn(384, 1536)
with torch.no_grad():
    for _ in range(30):
        y = compiled(x)
print(y.shape)
