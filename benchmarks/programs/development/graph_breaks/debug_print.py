import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))

    def forward(self, x):
        for layer in self.layers[:2]:
            x = torch.relu(layer(x))
        print("hidden", tuple(x.shape))
        for layer in self.layers[2:]:
            x = torch.relu(layer(x))
        return x


net = torch.compile(Net().eval())
with torch.no_grad():
    for _ in range(100):
        net(torch.randn(64, 256))
