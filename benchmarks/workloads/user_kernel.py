"""A user's own Triton kernel inside a compiled function."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    x = tl.load(x_ptr + index, mask=mask)
    y = tl.load(y_ptr + index, mask=mask)
    tl.store(out_ptr + index, x + scale * y, mask=mask)


@torch.compile
def step(x, y):
    out = torch.empty_like(x)
    scaled_add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), 0.5, BLOCK=1024)
    return out.relu() + x.sum()


x, y = torch.randn(100_000, device="cuda"), torch.randn(100_000, device="cuda")
for _ in range(2):
    step(x, y)
