"""A matrix product followed by a softmax: the classic example that compiling makes slower.

At 100x100 the kernels are shorter than the work of launching them, so there is nothing to win. The program
has no clock of its own: what it takes is for the capture to say, which also runs it without debug output.
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
for _ in range(6000):
    rows = compiled(x, y)
print(f"each row sums to {rows.sum(dim=1).mean().item():.3f}")
