import torch

torch.manual_seed(0)


@torch.compile
def f(x, i):
    return x[i].sin() + x[i.flip(0)].cos()


x = torch.randn(5000000)
i = torch.randperm(5000000)
for _ in range(30):
    f(x, i)
