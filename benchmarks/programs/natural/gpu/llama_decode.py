"""One token through four Llama layers with a static key-value cache."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(
            x
        ) * self.weight


class Layer(nn.Module):
    def __init__(self, dim, heads, kv_heads, batch, length):
        super().__init__()
        self.h, self.kv, self.hd = heads, kv_heads, dim // heads
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wk, self.wv = (nn.Linear(dim, kv_heads * self.hd, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(dim, 3 * dim, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * dim, dim, bias=False)
        self.register_buffer("ck", torch.zeros(batch, kv_heads, length, self.hd))
        self.register_buffer("cv", torch.zeros(batch, kv_heads, length, self.hd))

    def forward(self, x, pos, cos, sin, mask):
        b, t, d = x.shape
        y = self.n1(x)
        q = rope(self.wq(y).view(b, t, self.h, self.hd).transpose(1, 2), cos, sin)
        k = rope(self.wk(y).view(b, t, self.kv, self.hd).transpose(1, 2), cos, sin)
        v = self.wv(y).view(b, t, self.kv, self.hd).transpose(1, 2)
        self.ck.index_copy_(2, pos, k)
        self.cv.index_copy_(2, pos, v)
        keys = self.ck.repeat_interleave(self.h // self.kv, 1)
        values = self.cv.repeat_interleave(self.h // self.kv, 1)
        o = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.wo(o.transpose(1, 2).reshape(b, t, d))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, batch, length, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Layer(dim, 16, 4, batch, length) for _ in range(depth)])
        self.norm, self.head = RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, dim // 32) / (dim // 32)))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("steps", torch.arange(length))

    def forward(self, token, pos):
        x = self.embed(token)
        cos, sin = self.cos[pos].to(x.dtype), self.sin[pos].to(x.dtype)
        mask = (self.steps[None] <= pos[:, None])[None, None]
        for layer in self.layers:
            x = layer(x, pos, cos, sin, mask)
        return self.head(self.norm(x))[:, -1].argmax(-1, keepdim=True)


def build(device, compiled):
    torch.manual_seed(0)
    batch, length, dim = pick(8, 2), pick(2048, 64), pick(2048, 128)
    model = Decoder(pick(32000, 100), dim, batch, length).to(device, torch.bfloat16).eval()
    decode = torch.compile(model, backend=BACKEND) if compiled else model
    state = {
        "token": torch.zeros(batch, 1, dtype=torch.long, device=device),
        "pos": torch.zeros(1, dtype=torch.long, device=device),
    }

    @torch.no_grad()
    def step():
        state["token"] = decode(state["token"], state["pos"])
        state["pos"] = (state["pos"] + 1) % length
        return state["token"]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
