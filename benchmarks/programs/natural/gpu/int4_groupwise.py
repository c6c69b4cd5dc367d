"""Packed 4-bit weights with group scales, unpacked before the product."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Int4Linear(nn.Module):
    def __init__(self, inp, out, group=128):
        super().__init__()
        self.group = group
        self.register_buffer("packed", torch.randint(0, 256, (out, inp // 2), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(out, inp // group) * 0.01)
        self.register_buffer("zeros", torch.randint(0, 16, (out, inp // group)).float())

    def dequantize(self, dtype):
        low, high = self.packed & 0xF, self.packed >> 4
        q = torch.stack([low, high], -1).flatten(1)
        q = q.view(q.shape[0], -1, self.group).to(dtype)
        w = (q - self.zeros[..., None].to(dtype)) * self.scales[..., None].to(dtype)
        return w.flatten(1)

    def forward(self, x):
        return x @ self.dequantize(x.dtype).T


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = Int4Linear(dim, 3 * dim), Int4Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        y = F.scaled_dot_product_attention(
            *(a.unflatten(-1, (-1, 64)).transpose(1, 2) for a in (q, k, v)), is_causal=True
        )
        return x + self.out(y.transpose(1, 2).flatten(2))


def build(device, compiled):
    torch.manual_seed(0)
    dim = pick(4096, 256)
    with torch.device(device):
        model = nn.Sequential(Layer(dim), Layer(dim)).half().eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(1, pick(256, 8), dim, device=device).half()

    @torch.no_grad()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
