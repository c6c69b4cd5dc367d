import torch
import torch._inductor.config as config

config.cpp.simdlen = 1  # copied from a bug report


@torch.compile
def activation(x, y):
    return torch.sigmoid(x) * torch.tanh(y) + torch.exp(-x * x)


x, y = torch.randn(1000, 1000), torch.randn(1000, 1000)
for _ in range(30):
    activation(x, y)
