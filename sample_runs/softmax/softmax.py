"""A matrix product followed by a softmax: the classic example that compiling makes slower.

At 100x100 the kernels are shorter than the work of launching them, so there is nothing to win.
"""

import torch


def matmul_softmax(x, y):
    z = torch.matmul(x, y)
    return torch.nn.functional.softmax(z, dim=1)


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
compiled = torch.compile(matmul_softmax)
x = torch.randn(100, 100, device=device)
y = torch.randn(100, 100, device=device)
for _ in range(3):
    compiled(x, y)
