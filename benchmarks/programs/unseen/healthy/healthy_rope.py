import torch

torch.manual_seed(0)


@torch.compile
def rope(x, c, s):
    a, b = (x[..., ::2], x[..., 1::2])
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


x = torch.randn(8, 512, 16, 64)
th = torch.randn(1, 512, 1, 32)
c, s = (th.cos(), th.sin())
for i in range(200):
    rope(x, c, s)
