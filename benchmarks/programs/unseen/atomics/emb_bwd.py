import torch

torch.manual_seed(0)


@torch.compile
def f(x, idx, v):
    return x.scatter_add(0, idx, v.exp())


x = torch.zeros(5000)
idx = torch.randint(0, 5000, (2000000,))
v = torch.randn(2000000)
for i in range(40):
    f(x, idx, v)
