import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
import logging

log = logging.getLogger("net")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = F.gelu(layer(x))
            log.warning("layer %d", i)
        return x


log.setLevel(logging.ERROR)
net = torch.compile(Net().eval())
x = torch.randn(32, 64)
with torch.no_grad():
    for _ in range(300):
        net(x)
