import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
import numpy as np


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64)
        self.b = nn.Linear(64, 64)

    def forward(self, x):
        x = F.relu(self.a(x))
        m = np.percentile(x.detach().numpy(), 90)
        x = x.clamp(max=torch.tensor(m, dtype=x.dtype))
        return self.b(x)


net = torch.compile(Net().eval())
x = torch.randn(64, 64)
with torch.no_grad():
    for _ in range(200):
        net(x)
