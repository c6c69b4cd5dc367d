"""Matrix products in half precision that the library does at full speed."""

import torch
from torch import nn

model = nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(4))).to("cuda", torch.bfloat16).eval()
fast = torch.compile(model)
x = torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(60):
        y = fast(x)
print(y.shape)
