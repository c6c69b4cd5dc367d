"""A loss whose scale comes from numpy: the arithmetic is float64 on a GPU."""

import torch

scale = torch.tensor(1.7, dtype=torch.float64, device="cuda").reshape(1)


@torch.compile
def loss(x, y):
    return (torch.exp(x * scale) - torch.sin(y * scale)).square().mean()


x, y = torch.randn(8192, 8192, device="cuda"), torch.randn(8192, 8192, device="cuda")
for _ in range(60):
    value = loss(x, y)
print(float(value))
