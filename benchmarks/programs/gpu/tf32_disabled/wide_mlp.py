"""A wide perceptron in float32, as most tutorials leave it."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Linear(8192, 4096)).cuda().eval()
fast = torch.compile(model)
x = torch.randn(2048, 4096, device="cuda")
with torch.no_grad():
    for _ in range(60):
        y = fast(x)
torch.cuda.synchronize()
print(y.shape)
