"""Linear layers in fp8: activations are scaled and cast on the fly, and the product uses fp8 tensor cores.

Eager walks over the activations once for the largest value, once to scale, once to cast; compiled code does
it in as few passes as the largest value allows, beside the same product of the library.
"""

import torch

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max


def quantised(x):
    """(values in fp8, what to multiply them with), one scale for the whole tensor."""
    scale = LARGEST / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-LARGEST, LARGEST).to(E4M3), scale.reciprocal()


def linear(x, weight, weight_scale):
    values, scale = quantised(x)
    return torch._scaled_mm(values, weight.t(), scale, weight_scale, out_dtype=torch.bfloat16)


@torch.compile
def perceptron(x, up, up_scale, down, down_scale):
    hidden = torch.nn.functional.silu(linear(x, up, up_scale))
    return linear(hidden, down, down_scale)


torch.manual_seed(0)
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
up, up_scale = quantised(torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16))
down, down_scale = quantised(torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16))
with torch.no_grad():
    for _ in range(100):
        y = perceptron(x, up, up_scale, down, down_scale)
print(y.shape, y.dtype)
