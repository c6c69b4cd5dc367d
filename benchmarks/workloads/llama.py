"""A small Llama, inference: 6 layers of width 1024, 4x512 tokens, bfloat16 on a GPU; a tiny one without."""

import torch
from torch import nn
from torch.nn import functional as F

CUDA = torch.cuda.is_available()
LAYERS, WIDTH, INNER, HEADS, VOCABULARY = (6, 1024, 2816, 16, 32000) if CUDA else (2, 64, 176, 4, 100)
BATCH, LENGTH = (4, 512) if CUDA else (2, 16)
CALLS = 50 if CUDA else 5


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = Norm(), Norm()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        heads = self.qkv(self.before(x)).view(*x.shape[:2], 3 * HEADS, -1).transpose(1, 2)
        q, k, v = heads.chunk(3, 1)
        attended = F.scaled_dot_product_attention(
            rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True
        )
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()

    def forward(self, tokens):
        x = self.embedding(tokens)
        size = WIDTH // HEADS
        speeds = 10000.0 ** (-torch.arange(0, size, 2, device=tokens.device) / size)
        angles = torch.outer(torch.arange(tokens.shape[1], device=tokens.device), speeds).repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


torch.manual_seed(0)
device, dtype = ("cuda", torch.bfloat16) if CUDA else ("cpu", torch.float32)
model = Llama().eval().to(device, dtype=dtype)
compiled = torch.compile(model)
tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device=device)
with torch.no_grad():
    for _ in range(CALLS):
        compiled(tokens)
