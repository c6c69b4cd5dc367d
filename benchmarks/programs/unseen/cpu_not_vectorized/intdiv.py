import torch

torch.manual_seed(0)


@torch.compile
def f(x, n):
    return x % n * 3 + torch.div(x, n, rounding_mode="floor")


x = torch.randint(0, 10**9, (2000000,))
n = torch.randint(1, 1000, (2000000,))
for i in range(40):
    f(x, n)
