import torch
import torch.nn as nn

torch.manual_seed(0)
import time

model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()).eval()
x = torch.randn(4, 3, 64, 64)


def measure(fn):
    begin = time.time()
    with torch.no_grad():
        for _ in range(10):
            fn(x)
    return (time.time() - begin) / 10


print("eager   ", measure(model))
print("compiled", measure(torch.compile(model)))
