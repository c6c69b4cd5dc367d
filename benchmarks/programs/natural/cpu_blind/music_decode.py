"""Sample continuations from a small event-token music transformer."""

import math
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)


@dataclass
class Config:
    vocab: int = 388  # note-on, note-off, time-shift, velocity
    dim: int = 320
    heads: int = 5
    layers: int = 4
    max_len: int = 512


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x, past):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.out(y.transpose(1, 2).reshape(B, T, D)), (k, v)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.attn = Attention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x, past):
        a, kv = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.mlp(self.ln2(x)), kv


class MusicTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.ln = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def forward(self, idx, start, past=None):
        T = idx.shape[1]
        x = self.tok(idx) + self.pos(torch.arange(start, start + T))
        cache = []
        for i, blk in enumerate(self.blocks):
            x, kv = blk(x, past[i] if past is not None else None)
            cache.append(kv)
        return self.head(self.ln(x[:, -1])), cache


def sample(logits, temperature, top_k, gen):
    vals, ids = torch.topk(logits / temperature, top_k)
    pick = torch.multinomial(F.softmax(vals, dim=-1), 1, generator=gen)
    return ids.gather(1, pick)


@torch.inference_mode()
def generate(model, prompt, n_new, temperature=1.05, top_k=40, gen=None):
    logits, cache = model(prompt, 0)
    out = [prompt, sample(logits, temperature, top_k, gen)]
    pos = prompt.shape[1]
    t0 = time.time()
    for i in range(n_new - 1):
        logits, cache = model(out[-1], pos, cache)
        pos += 1
        out.append(sample(logits, temperature, top_k, gen))
        if i % 15 == 14:
            print(f"  {i + 1:3d} tokens, {(time.time() - t0):.2f}s")
    return torch.cat(out, dim=1)


def describe(tokens):
    on = (tokens < 128).sum().item()
    shift = ((tokens >= 256) & (tokens < 356)).sum().item()
    p = torch.bincount(tokens, minlength=388).float() / len(tokens)
    ent = -(p[p > 0] * p[p > 0].log()).sum().item() / math.log(2)
    return f"{on} note-ons, {shift} time-shifts, entropy {ent:.2f} bits"


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(11)
    cfg = Config()
    model = MusicTransformer(cfg).eval()
    model = torch.compile(model)
    prompt = torch.randint(0, cfg.vocab, (8, 96), generator=gen)
    print("generating")
    seq = generate(model, prompt, 61, gen=gen)
    for b in range(3):
        print(f"voice {b}: {describe(seq[b, 96:])}")


if __name__ == "__main__":
    main()
