"""Weights in int8 by torchao, compiled."""

import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()
quantize_(model, Int8WeightOnlyConfig())
compiled = torch.compile(model)
with torch.no_grad():
    for _ in range(10):
        out = compiled(torch.randn(16, 128))
print(tuple(out.shape))
