import torch

torch.manual_seed(0)
torch.set_num_threads(1)


@torch.compile
def f(x):
    return torch.exp(torch.sin(x)) * torch.tanh(x) + torch.log1p(x.abs())


x = torch.randn(4000000)
for i in range(30):
    f(x)
