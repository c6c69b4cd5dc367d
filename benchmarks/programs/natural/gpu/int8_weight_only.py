"""Weight-only int8 linear layers dequantised on the fly, small batch."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        w = linear.weight.detach()
        scale = w.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (w / scale).round().clamp(-128, 127).to(torch.int8))
        self.register_buffer("scale", scale.squeeze(1).to(torch.bfloat16))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype)) * self.scale


class MLP(nn.Module):
    def __init__(self, dim=4096, hidden=11008):
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(dim, hidden, bias=False),
            nn.Linear(dim, hidden, bias=False),
            nn.Linear(hidden, dim, bias=False),
        )

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def quantize(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, Int8Linear(child))
        else:
            quantize(child)
    return model


def build(device, compiled):
    torch.manual_seed(0)
    dim, hidden = pick(4096, 64), pick(11008, 128)
    with torch.device(device):
        model = quantize(nn.Sequential(MLP(dim, hidden), MLP(dim, hidden))).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(pick(4, 1), dim, device=device, dtype=torch.bfloat16)

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
