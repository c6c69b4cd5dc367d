"""What a GPU too old for Triton does to a program that suppresses errors.

The GPU is simulated at the capability check: compiling raises what Inductor raises for one.
"""

import torch
import torch._dynamo
from torch import nn
from torch._inductor.exc import GPUTooOldForTriton

torch._dynamo.config.suppress_errors = True


class TeslaP100:
    name, major, minor = "Tesla P100-PCIE-16GB", 6, 0


def inductor_on_old_gpu(graph, inputs):
    raise GPUTooOldForTriton(TeslaP100, None)


model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).eval()
fast = torch.compile(model, backend=inductor_on_old_gpu)
with torch.no_grad():
    for _ in range(50):
        scores = fast(torch.randn(32, 256))
print(scores.shape)
