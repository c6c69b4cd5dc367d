import torch
import torch.nn as nn

torch.manual_seed(0)
import numpy as np

weights = torch.from_numpy(np.random.randn(512))


class Score(nn.Module):
    def forward(self, x):
        return torch.tanh(x * weights).exp().mean(-1)


s = torch.compile(Score())
x = torch.randn(4096, 512)
with torch.no_grad():
    for _ in range(40):
        s(x)
