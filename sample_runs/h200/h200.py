"""Half-precision norms, a masked softmax and a matrix product, for a GPU: Triton and extern kernels."""

import torch


def block(x, w, bias, mask):
    h = torch.nn.functional.layer_norm(x, x.shape[-1:], w, bias)
    scores = (h @ h.transpose(-1, -2)).masked_fill(mask, float("-inf")).softmax(-1)
    y = torch.nn.functional.gelu(scores @ h)
    return y * torch.rsqrt(y.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(y.dtype)


torch.manual_seed(0)
x = torch.randn(8, 512, 256, device="cuda", dtype=torch.float16)
w = torch.randn(256, device="cuda", dtype=torch.float16)
bias = torch.randn(256, device="cuda", dtype=torch.float16)
mask = torch.ones(512, 512, device="cuda", dtype=torch.bool).triu(1)
compiled = torch.compile(block)
with torch.no_grad():
    for _ in range(3):
        compiled(x, w, bias, mask)
