"""Toy text-generation service: a small Llama-style decoder answers a queue of
prompts one at a time with a growing key/value cache and top-k sampling."""

import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, LAYERS, HEADS, KV_HEADS, FFN = 8000, 512, 8, 8, 4, 1376
HEAD = DIM // HEADS


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope_table(max_len, dim, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2).float() / dim)
    ang = torch.outer(torch.arange(max_len).float(), inv)
    return torch.cat([ang.cos(), ang.cos()], -1), torch.cat([ang.sin(), ang.sin()], -1)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, KV_HEADS * HEAD, bias=False)
        self.v = nn.Linear(DIM, KV_HEADS * HEAD, bias=False)
        self.o = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, cos, sin, past):
        b, t, _ = x.shape
        q = rotate(self.q(x).view(b, t, HEADS, HEAD).transpose(1, 2), cos, sin)
        k = rotate(self.k(x).view(b, t, KV_HEADS, HEAD).transpose(1, 2), cos, sin)
        v = self.v(x).view(b, t, KV_HEADS, HEAD).transpose(1, 2)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        kk = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        vv = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        y = F.scaled_dot_product_attention(q, kk, vv, is_causal=past is None)
        return self.o(y.transpose(1, 2).reshape(b, t, DIM)), (k, v)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.attn = Attention()
        self.gate = nn.Linear(DIM, FFN, bias=False)
        self.up = nn.Linear(DIM, FFN, bias=False)
        self.down = nn.Linear(FFN, DIM, bias=False)

    def forward(self, x, cos, sin, past):
        h, kv = self.attn(self.n1(x), cos, sin, past)
        x = x + h
        z = self.n2(x)
        return x + self.down(F.silu(self.gate(z)) * self.up(z)), kv


class Decoder(nn.Module):
    def __init__(self, max_len=512):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        cos, sin = rope_table(max_len, HEAD)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.6 / math.sqrt(p.shape[-1]))

    def forward(self, ids, cache=None):
        start = 0 if cache is None else cache[0][0].shape[2]
        cos = self.cos[start : start + ids.shape[1]]
        sin = self.sin[start : start + ids.shape[1]]
        x = self.emb(ids)
        new = []
        for i, blk in enumerate(self.blocks):
            x, kv = blk(x, cos, sin, None if cache is None else cache[i])
            new.append(kv)
        return self.head(self.norm(x[:, -1])), new


def sample(logits, k, temperature, gen):
    top, idx = torch.topk(logits / temperature, k)
    pick = torch.multinomial(top.softmax(-1), 1, generator=gen)
    return idx.gather(-1, pick)


@torch.inference_mode()
def generate(model, prompt, n_new, gen):
    ids = prompt[None]
    t0 = time.perf_counter()
    logits, cache = model(ids)
    first = time.perf_counter() - t0
    out = []
    for _ in range(n_new):
        tok = sample(logits, 40, 0.8, gen)
        out.append(tok.item())
        logits, cache = model(tok, cache)
    return out, first, (time.perf_counter() - t0 - first) / n_new


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = Decoder().eval()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters")
    model = torch.compile(model)

    queue = [
        torch.randint(0, VOCAB, (int(n),), generator=gen) for n in torch.randint(24, 140, (6,), generator=gen)
    ]
    per_tok = []
    for r, prompt in enumerate(queue):
        out, first, tok = generate(model, prompt, 24, gen)
        per_tok.append(tok)
        print(
            f"req {r}: prompt {len(prompt):3d}  first token {first * 1e3:7.1f} ms  "
            f"{1 / tok:6.1f} tok/s  -> {out[:6]}"
        )
    print(f"median {statistics.median(per_tok) * 1e3:.2f} ms/token")


if __name__ == "__main__":
    main()
