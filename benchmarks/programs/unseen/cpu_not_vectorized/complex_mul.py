import torch

torch.manual_seed(0)


@torch.compile
def rotate(x, w):
    z = torch.view_as_complex(x)
    return torch.view_as_real(z * w)


x = torch.randn(2000000, 2)
w = torch.polar(torch.ones(2000000), torch.randn(2000000))
for _ in range(30):
    rotate(x, w)
