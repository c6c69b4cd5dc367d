"""Embedding service: requests of different lengths are packed into fixed token
slots, encoded with document-masked soft-capped attention, and searched in an index."""

import time
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

SLOT = 1024
MAX_DOCS = 32


@dataclass
class EmbedRequest:
    rid: int
    tokens: torch.Tensor


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, softcap=20.0):
        super().__init__()
        self.heads = heads
        self.softcap = softcap
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.gate_up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x, allowed, bias):
        t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(t, 3, self.heads, d // self.heads).permute(1, 2, 0, 3)
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = self.softcap * torch.tanh(scores / self.softcap)
        scores = (scores - bias).masked_fill(~allowed, float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        x = x + self.proj(y.transpose(0, 1).reshape(t, d))
        g, u = self.gate_up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(g) * u)


class PackedEncoder(nn.Module):
    def __init__(self, vocab=5000, dim=128, heads=4, depth=3):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([EncoderLayer(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("slopes", 2.0 ** -(torch.arange(heads).float() + 3))

    def forward(self, tokens, doc_ids):
        x = self.tok(tokens)
        allowed = doc_ids[:, None] == doc_ids[None, :]
        idx = torch.arange(len(tokens))
        bias = self.slopes[:, None, None] * (idx[:, None] - idx[None, :]).abs()
        for layer in self.layers:
            x = layer(x, allowed, bias)
        x = self.norm(x)
        sums = x.new_zeros(MAX_DOCS + 1, x.size(-1)).index_add(0, doc_ids, x)
        return F.normalize(sums[:MAX_DOCS], dim=-1)


class EmbeddingService:
    def __init__(self, model, index):
        self.model = model
        self.index = index
        self.queue = deque()
        self.doc_ids = torch.zeros(SLOT, dtype=torch.long)
        self.tokens = torch.zeros(SLOT, dtype=torch.long)

    def submit(self, req):
        self.queue.append(req)

    @torch.no_grad()
    def run_once(self):
        taken, used = [], 0
        self.tokens.zero_()
        self.doc_ids.fill_(MAX_DOCS)
        while self.queue and len(taken) < MAX_DOCS and used + len(self.queue[0].tokens) <= SLOT:
            req = self.queue.popleft()
            n = len(req.tokens)
            self.tokens[used : used + n] = req.tokens
            self.doc_ids[used : used + n] = len(taken)
            taken.append(req)
            used += n
        emb = self.model(self.tokens, self.doc_ids)[: len(taken)]
        scores, ids = (emb @ self.index.T).topk(5, dim=-1)
        return [(r.rid, i.tolist(), s[0].item()) for r, i, s in zip(taken, ids, scores)], used


def main():
    torch.manual_seed(21)
    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(22)
    encoder = PackedEncoder().eval().requires_grad_(False)
    index = F.normalize(torch.randn(4000, 128, generator=gen), dim=-1)
    service = EmbeddingService(torch.compile(encoder), index)
    lengths = torch.randint(24, 360, (160,), generator=gen).tolist()
    for rid, n in enumerate(lengths):
        service.submit(EmbedRequest(rid, torch.randint(1, 5000, (n,), generator=gen)))

    lat, fill, answered = [], [], 0
    while service.queue:
        t0 = time.perf_counter()
        results, used = service.run_once()
        lat.append(time.perf_counter() - t0)
        fill.append(used / SLOT)
        answered += len(results)
    lat = torch.tensor(lat[1:]) * 1e3
    print(f"answered {answered} requests in {len(fill)} slots, fill {sum(fill) / len(fill):.2f}")
    print(f"slot latency median {lat.median():.1f} ms, p95 {lat.quantile(0.95):.1f} ms")
    print("last:", results[-1])


if __name__ == "__main__":
    main()
