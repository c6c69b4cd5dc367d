"""A Triton kernel as a user writes one; only a GPU's torch has triton."""

import triton
import triton.language as tl

BLOCK = 128


def blocks(n: int) -> int:
    return triton.cdiv(n, BLOCK)


@triton.jit
def choice(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    scaled = x * 1.5
    total = scaled + y
    result = tl.where(x > 0.25, total, y)
    tl.store(out_ptr + offsets, result, mask=mask)
