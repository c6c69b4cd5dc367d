import torch

torch.manual_seed(0)


@torch.compile
def f(x):
    y = torch.exp(x) + 1
    a = y.sum(0)
    z = (y.t() * 2).contiguous().cumsum(-1)
    return (a, torch.sin(y), z.t() * y)


x = torch.randn(1500, 1500)
for i in range(60):
    f(x)
