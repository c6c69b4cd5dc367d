import torch

torch.manual_seed(0)


@torch.compile
def f(u):
    return torch.erfinv(u) * 2**0.5 + torch.nextafter(u, u + 1)


u = torch.rand(3000000) * 0.9
for i in range(30):
    f(u)
