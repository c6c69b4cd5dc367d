import torch

torch.manual_seed(0)


@torch.compile
def f(x, k):
    return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(k)) + x


x = torch.randn(64, 16384)
k = torch.randn(64, 16384)
for i in range(60):
    f(x, k)
