"""Streaming acoustic encoder: one frame per stream per call, sliding attention window."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

STREAMS = 24
MELS = 80
DIM = 256
HEADS = 4
WINDOW = 192
LAYERS = 2
VOCAB = 128


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window, streams):
        super().__init__()
        self.heads = heads
        self.window = window
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        hd = dim // heads
        self.register_buffer("k_cache", torch.zeros(streams, heads, window, hd))
        self.register_buffer("v_cache", torch.zeros(streams, heads, window, hd))
        self.register_buffer("valid", torch.zeros(window, dtype=torch.bool))
        self.pos = 0

    def forward(self, x):
        b, d = x.shape
        q, k, v = self.qkv(x).view(b, 3, self.heads, d // self.heads).unbind(1)
        slot = self.pos % self.window
        self.k_cache[:, :, slot] = k
        self.v_cache[:, :, slot] = v
        self.valid[slot] = True
        self.pos += 1
        scores = torch.einsum("bhd,bhwd->bhw", q, self.k_cache) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~self.valid, float("-inf"))
        ctx = torch.einsum("bhw,bhwd->bhd", scores.softmax(-1), self.v_cache)
        return self.proj(ctx.reshape(b, d))


class Block(nn.Module):
    def __init__(self, dim, heads, window, streams):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, heads, window, streams)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class StreamingEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(MELS, DIM)
        self.blocks = nn.ModuleList([Block(DIM, HEADS, WINDOW, STREAMS) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, mel):
        x = self.inp(mel)
        for blk in self.blocks:
            x = blk(x)
        return F.log_softmax(self.head(self.norm(x)), dim=-1)


def main():
    torch.manual_seed(0)
    warmup, frames = 12, 60
    model = StreamingEncoder().eval()
    encoder = torch.compile(model)
    audio = torch.randn(warmup + frames, STREAMS, MELS)

    with torch.no_grad():
        for t in range(warmup):
            encoder(audio[t])

        tokens, total = [], 0.0
        start = time.perf_counter()
        for t in range(warmup, warmup + frames):
            logp = encoder(audio[t])
            best, idx = logp.max(dim=-1)
            tokens.append(idx)
            total += best.sum().item()
        per_frame = (time.perf_counter() - start) / frames

    hyp = torch.stack(tokens, dim=1)
    print(f"streams={STREAMS} window={WINDOW}")
    print(f"time per frame: {per_frame * 1e3:.3f} ms")
    print(f"real time factor (10 ms hop): {per_frame / 0.010:.3f}")
    print(f"checksum: {total:.4f} / {hyp.sum().item()}")


if __name__ == "__main__":
    main()
