"""reduce-overhead on a decoder that writes keys into a cache handed to it."""

import torch
from torch.nn import functional as F


@torch.compile(mode="reduce-overhead")
def attend(q, k, v, cache, position):
    cache[:, :, position] = k
    return F.softmax(q @ cache.transpose(-1, -2) * 0.125, -1) @ v


q, k = (torch.randn(4, 8, 1, 64, device="cuda", dtype=torch.float16) for _ in range(2))
v, cache = (torch.randn(4, 8, 256, 64, device="cuda", dtype=torch.float16) for _ in range(2))
position = torch.tensor([7], device="cuda")
with torch.no_grad():
    for _ in range(200):
        out = attend(q, k, v, cache, position)
print(out.shape)
