"""Multilingual sentence-embedding service with a sparse mixture-of-experts encoder.

Requests are collected into batches; each batch is padded to its longest sentence
(rounded up to 32 tokens).  Top-2 routing over 8 experts, in every second layer.
"""

import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"
DTYPE = torch.float32 if SMOKE else torch.bfloat16
DIM, HEADS, LAYERS = (64, 4, 2) if SMOKE else (768, 12, 6)
HIDDEN = 4 * DIM
EXPERTS, TOP_K = 8, 2
VOCAB = 32000
BATCH = 4 if SMOKE else 64
REQUESTS = 4 if SMOKE else 60


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, mask):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, n, DIM))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class SparseMoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, EXPERTS, bias=False)
        self.experts = nn.ModuleList(FeedForward() for _ in range(EXPERTS))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probs = self.gate(x).float().softmax(-1)
        weight, chosen = probs.topk(TOP_K, dim=-1)
        weight = (weight / weight.sum(-1, keepdim=True)).to(x.dtype)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            if token.numel() == 0:
                continue
            y = expert(x[token]) * weight[token, slot, None]
            out.index_add_(0, token, y)
        return out.view(shape)


class Block(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.norm2 = nn.LayerNorm(DIM)
        self.attn = Attention()
        self.ffn = SparseMoE() if sparse else FeedForward()

    def forward(self, x, mask):
        x = x + self.attn(self.norm1(x), mask)
        return x + self.ffn(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(512, DIM)
        self.blocks = nn.ModuleList(Block(i % 2 == 1) for i in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, ids, valid):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        mask = valid[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        x = self.norm(x) * valid[..., None]
        pooled = x.sum(1) / valid.sum(1, keepdim=True)
        return F.normalize(pooled.float(), dim=-1)


def make_batch(rng):
    lengths = [min(256, max(4, int(rng.lognormvariate(3.8, 0.6)))) for _ in range(BATCH)]
    width = (max(lengths) + 31) // 32 * 32
    ids = torch.zeros(BATCH, width, dtype=torch.long)
    valid = torch.zeros(BATCH, width, dtype=torch.bool)
    for i, n in enumerate(lengths):
        ids[i, :n] = torch.tensor([rng.randrange(VOCAB) for _ in range(n)])
        valid[i, :n] = True
    return ids, valid


class EmbeddingService:
    def __init__(self):
        torch.manual_seed(0)
        self.model = Encoder().to(DEVICE, DTYPE).eval()
        self.encode = torch.compile(self.model)

    @torch.no_grad()
    def __call__(self, ids, valid):
        return self.encode(ids.to(DEVICE), valid.to(DEVICE)).cpu()


def main():
    rng = random.Random(7)
    service = EmbeddingService()
    batches = [make_batch(rng) for _ in range(12)]
    latencies, index = [], []
    for r in range(REQUESTS):
        ids, valid = batches[r % len(batches)]
        t0 = time.perf_counter()
        emb = service(ids, valid)
        latencies.append((time.perf_counter() - t0) * 1e3)
        index.append(emb)
    lat = torch.tensor(latencies[len(latencies) // 2 :])
    index = torch.cat(index)
    print(f"indexed {len(index)} sentences, p50 {lat.median():.2f} ms, p95 {lat.quantile(0.95):.2f} ms")
    print("nearest neighbour similarity", (index[:8] @ index[8:].T).max(1).values.tolist()[:3])


if __name__ == "__main__":
    main()
