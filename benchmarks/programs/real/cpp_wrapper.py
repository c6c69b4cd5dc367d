"""A small encoder with a wrapper in C++ (torch._inductor.config.cpp_wrapper)."""

import torch

torch.manual_seed(0)
torch._inductor.config.cpp_wrapper = True
model = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
compiled = torch.compile(model)
with torch.no_grad():
    for _ in range(10):
        out = compiled(torch.randn(4, 16, 64))
print(tuple(out.shape))
