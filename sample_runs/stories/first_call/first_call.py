"""A script that times its first call, and so times the compiler."""

import time

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).eval()
x = torch.randn(64, 512)


def measure(name, function):
    start = time.perf_counter()
    for _ in range(20):
        function(x)
    print(f"{name}: {(time.perf_counter() - start) / 20 * 1e3:.2f} ms a call")


with torch.no_grad():
    measure("eager", model)
    measure("compiled", torch.compile(model))
