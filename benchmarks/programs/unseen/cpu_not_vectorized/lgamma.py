import torch

torch.manual_seed(0)


@torch.compile
def f(x):
    return torch.special.bessel_j0(x) + torch.special.i1(x) * 2


x = torch.rand(2000000)
for i in range(30):
    f(x)
