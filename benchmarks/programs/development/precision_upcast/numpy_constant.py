import numpy as np
import torch

window = torch.from_numpy(np.hanning(2048))


@torch.compile
def windowed_power(x):
    y = x * window
    return (y * y).mean(-1, keepdim=True) + torch.log1p(y.abs())


x = torch.randn(1024, 2048)
for _ in range(15):
    windowed_power(x)
