"""Dynamically quantised MLP: int8 activations and weights, integer products rescaled."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def quantize_rows(x):
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


class Int8Linear(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        w, scale = quantize_rows(torch.randn(out, inp) * inp**-0.5)
        self.register_buffer("weight", w.t().contiguous())
        self.register_buffer("scale", scale.squeeze(1))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x):
        q, s = quantize_rows(x)
        y = torch._int_mm(q, self.weight)
        return y.float() * s * self.scale + self.bias


def build(device, compiled):
    torch.manual_seed(0)
    d, h = pick(768, 32), pick(2048, 64)
    model = (
        nn.Sequential(Int8Linear(d, h), nn.GELU(), Int8Linear(h, d), nn.LayerNorm(d), Int8Linear(d, 256))
        .to(device)
        .eval()
    )
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(pick(64, 32), d, device=device)

    @torch.inference_mode()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
