import torch

torch.manual_seed(0)
import numpy as np

scale = torch.tensor(np.float64(1.7)).reshape(1)


@torch.compile
def f(x):
    return (x.double() * scale + x.double().exp()).sin().float()


x = torch.randn(2000, 1000)
for i in range(60):
    f(x)
