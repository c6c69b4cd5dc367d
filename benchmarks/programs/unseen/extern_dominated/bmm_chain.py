import torch

torch.manual_seed(0)


@torch.compile
def f(a, b, d):
    return a @ b @ d + a


a, b, d = (torch.randn(700, 700) for _ in range(3))
for i in range(60):
    f(a, b, d)
