"""A layer whose product is a Triton kernel of the program's own, in full float32; GELU and softmax behind."""

import os

import torch
import triton
import triton.language as tl

PRECISION = os.environ.get("PRECISION", "ieee")


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, row_a, col_a, row_b, col_b, row_c, col_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a = a_ptr + rows[:, None] * row_a + inner[None, :] * col_a
    b = b_ptr + inner[:, None] * row_b + columns[None, :] * col_b
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(a, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        y = tl.load(b, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        total += tl.dot(x, y, input_precision=PRECISION)
        a += BLOCK_K * col_a
        b += BLOCK_K * row_b
    c = c_ptr + rows[:, None] * row_c + columns[None, :] * col_c
    tl.store(c, total, mask=(rows[:, None] < M) & (columns[None, :] < N))


def product(a, b, blocks=(64, 64, 32), **options):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device)
    grid = (triton.cdiv(m, blocks[0]), triton.cdiv(n, blocks[1]))
    product_kernel[grid](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2], PRECISION=PRECISION, **options,
    )  # fmt: skip
    return c


def layer(x, weight, bias):
    return torch.nn.functional.gelu(product(x, weight) + bias).softmax(-1)


if __name__ == "__main__":
    x, weight = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    bias = torch.randn(2048, device="cuda")
    compiled = torch.compile(layer)
    for _ in range(30):
        result = compiled(x, weight, bias)
    print(result.sum().item())
