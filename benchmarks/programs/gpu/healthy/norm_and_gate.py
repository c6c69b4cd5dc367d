"""A norm and a gated activation over many tokens."""

import torch
from torch.nn import functional as F


@torch.compile
def gate(x, up, weight):
    x = F.rms_norm(x.float(), (x.shape[-1],), weight).to(x.dtype)
    return F.silu(x) * up


x, up = (torch.randn(32768, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
weight = torch.ones(4096, device="cuda")
for _ in range(100):
    y = gate(x, up, weight)
print(y.shape)
