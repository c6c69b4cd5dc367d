import torch

torch.manual_seed(0)


@torch.compile
def f(x, w):
    y = x.permute(0, 2, 1).contiguous()
    z = torch.bmm(y, w)
    return z.permute(0, 2, 1).contiguous().permute(2, 0, 1).contiguous()


x = torch.randn(32, 64, 2048)
w = torch.randn(32, 64, 4)
w = torch.randn(32, 64, 64)
for i in range(60):
    f(x, w)
