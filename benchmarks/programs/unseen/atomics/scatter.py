import torch

torch.manual_seed(0)


@torch.compile
def f(src, idx):
    return torch.zeros(1000, 64).index_add_(0, idx, src * 2) + 1


src = torch.randn(100000, 64)
idx = torch.randint(0, 1000, (100000,))
for i in range(40):
    f(src, idx)
