"""A print between layers splits the model."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
            print(end="")
        return x


torch.set_float32_matmul_precision("high")
fast = torch.compile(Net().cuda().eval())
x = torch.randn(64, 256, device="cuda")
with torch.no_grad():
    for _ in range(200):
        y = fast(x)
print(y.shape)
