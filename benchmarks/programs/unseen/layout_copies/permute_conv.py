import torch

torch.manual_seed(0)


@torch.compile
def shuffle(x):
    x = x.permute(0, 3, 1, 2).contiguous()
    x = x.view(8, 4, 16, 128, 128).transpose(1, 2).contiguous().view(8, 64, 128, 128)
    return x.permute(0, 2, 3, 1).contiguous()


x = torch.randn(8, 128, 128, 64)
for _ in range(30):
    shuffle(x)
