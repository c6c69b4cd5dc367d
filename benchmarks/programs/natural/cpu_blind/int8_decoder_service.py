"""Token-by-token decoding with a small weight-only int8 transformer (RoPE, SwiGLU,
static kv cache)."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

DIM, HEADS, LAYERS, VOCAB, MAX_LEN, BATCH = 512, 8, 4, 8192, 128, 4
HEAD_DIM = DIM // HEADS
FFN = 1408


class Int8Linear(nn.Module):
    """Per-output-channel symmetric int8 weights, float activations."""

    def __init__(self, weight):
        super().__init__()
        scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-8) / 127.0
        self.register_buffer("qweight", torch.round(weight / scale).to(torch.int8))
        self.register_buffer("scale", scale)

    @classmethod
    def from_float(cls, lin):
        return cls(lin.weight.detach())

    def forward(self, x):
        w = self.qweight.to(x.dtype) * self.scale
        return F.linear(x, w)


def quantize_(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear.from_float(child))
        else:
            quantize_(child)
    return module


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.g = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.g


def rope(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.gate = nn.Linear(DIM, FFN, bias=False)
        self.up = nn.Linear(DIM, FFN, bias=False)
        self.down = nn.Linear(FFN, DIM, bias=False)
        self.register_buffer("k_cache", torch.zeros(BATCH, HEADS, MAX_LEN, HEAD_DIM))
        self.register_buffer("v_cache", torch.zeros(BATCH, HEADS, MAX_LEN, HEAD_DIM))

    def forward(self, x, pos, cos, sin, mask):
        q, k, v = self.qkv(self.n1(x)).view(BATCH, 1, 3, HEADS, HEAD_DIM).permute(2, 0, 3, 1, 4)
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        self.k_cache.index_copy_(2, pos, k)
        self.v_cache.index_copy_(2, pos, v)
        a = F.scaled_dot_product_attention(q, self.k_cache, self.v_cache, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(BATCH, 1, DIM))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)
        inv = 10000 ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
        ang = torch.arange(MAX_LEN).float()[:, None] * inv
        self.register_buffer("cos", ang.cos())
        self.register_buffer("sin", ang.sin())
        self.register_buffer("slots", torch.arange(MAX_LEN))

    def forward(self, tok, pos):
        x = self.emb(tok)
        cos, sin = self.cos[pos], self.sin[pos]
        mask = (self.slots <= pos).view(1, 1, 1, MAX_LEN)
        for blk in self.blocks:
            x = blk(x, pos, cos, sin, mask)
        return self.lm_head(self.norm(x))[:, -1]


@torch.no_grad()
def main():
    model = quantize_(Decoder().eval())
    step = torch.compile(model)
    size = sum(b.numel() for n, b in model.named_buffers() if n.endswith("qweight")) / 2**20
    print(f"int8 weights: {size:.1f} MiB")

    tok = torch.randint(0, VOCAB, (BATCH, 1))
    out, times = [], []
    for i in range(44):
        pos = torch.tensor([i])
        t0 = time.perf_counter()
        logits = step(tok, pos)
        tok = logits.argmax(-1, keepdim=True)
        if i >= 4:
            times.append(time.perf_counter() - t0)
        out.append(tok)
    seq = torch.cat(out, 1)
    print(f"mean {1e3 * sum(times) / len(times):.2f} ms/token   checksum {int(seq.sum())}")


if __name__ == "__main__":
    main()
