"""A long chain over a hundred million numbers: bound by memory."""

import torch


@torch.compile
def chain(x, y):
    return torch.relu(x * 2 + y).tanh() - y * 0.5


x, y = torch.randn(100_000_000, device="cuda"), torch.randn(100_000_000, device="cuda")
for _ in range(100):
    z = chain(x, y)
print(z.shape)
