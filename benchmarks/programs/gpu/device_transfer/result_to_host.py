"""Each step's whole feature map is brought back to the host inside the compiled function."""

import torch


@torch.compile
def features(x, w):
    y = torch.relu(x * w).square()
    return y.to("cpu"), y.mean()


x, w = torch.randn(4096, 4096, device="cuda"), torch.randn(4096, 4096, device="cuda")
for _ in range(40):
    kept, mean = features(x, w)
print(kept.shape)
