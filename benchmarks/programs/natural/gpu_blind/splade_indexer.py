"""Build a learned-sparse (SPLADE style) inverted index over a passage collection.

Passages are sorted by length, padded per batch, encoded in bf16, pooled to one
vocabulary-sized weight vector each, pruned to the top terms and put into postings.
"""

import os
import time
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
VOCAB = 503 if SMOKE else 30522
HIDDEN = 64 if SMOKE else 512
LAYERS = 2 if SMOKE else 6
HEADS = 4 if SMOKE else 8
N_DOCS = 24 if SMOKE else 7680
BATCH = 8 if SMOKE else 64
MAX_LEN = 40 if SMOKE else 220
KEEP = 32 if SMOKE else 160
PAD = 0


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.ln1 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.ln2 = nn.LayerNorm(dim)

    def forward(self, x, attn_mask):
        b, l, d = x.shape
        q, k, v = self.qkv(x).view(b, l, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        x = self.ln1(x + self.out(a.transpose(1, 2).reshape(b, l, d)))
        return self.ln2(x + self.down(F.gelu(self.up(x))))


class SpladeEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, HIDDEN, padding_idx=PAD)
        self.pos = nn.Embedding(512, HIDDEN)
        self.ln = nn.LayerNorm(HIDDEN)
        self.layers = nn.ModuleList(EncoderLayer(HIDDEN, HEADS) for _ in range(LAYERS))
        self.transform = nn.Linear(HIDDEN, HIDDEN)
        self.ln_head = nn.LayerNorm(HIDDEN)
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.04)

    def forward(self, ids):
        keep = ids.ne(PAD)
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        x = self.ln(x)
        mask = keep[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        h = self.ln_head(F.gelu(self.transform(x)))
        logits = F.linear(h, self.tok.weight, self.bias)
        weights = torch.log1p(torch.relu(logits.float())) * keep.unsqueeze(-1)
        pooled = weights.max(dim=1).values
        return pooled.topk(KEEP, dim=1)


def synth_passages(rng):
    lens = np.clip(rng.gamma(4.0, MAX_LEN / 8.0, N_DOCS).astype(int), 8, MAX_LEN)
    zipf = 1.0 / np.arange(1, VOCAB) ** 1.05
    zipf /= zipf.sum()
    stream = rng.choice(VOCAB - 1, size=int(lens.sum()), p=zipf) + 1
    return np.split(stream, np.cumsum(lens)[:-1])


def batches(passages):
    order = np.argsort([-len(p) for p in passages], kind="stable")
    for s in range(0, len(order), BATCH):
        sel = order[s : s + BATCH]
        width = max(len(passages[i]) for i in sel)
        ids = np.full((len(sel), width), PAD, dtype=np.int64)
        for r, i in enumerate(sel):
            ids[r, : len(passages[i])] = passages[i]
        yield sel, torch.from_numpy(ids)


def main():
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    passages = synth_passages(rng)
    model = SpladeEncoder().eval().to(DEVICE, torch.bfloat16)
    encode = torch.compile(model, dynamic=True)

    term_ids, term_w, doc_ids = [], [], []
    tokens = 0
    t0 = time.perf_counter()
    with torch.inference_mode():
        for n, (sel, ids) in enumerate(batches(passages)):
            w, t = encode(ids.to(DEVICE, non_blocking=True))
            term_ids.append(t.cpu().numpy())
            term_w.append(w.float().cpu().numpy())
            doc_ids.append(np.repeat(sel[:, None], KEEP, axis=1))
            tokens += ids.numel()
            if n % 20 == 0:
                dt = time.perf_counter() - t0
                print(f"batch {n:4d} width {ids.shape[1]:4d}  {tokens / dt / 1e3:9.1f} ktok/s", flush=True)
    t_enc = time.perf_counter() - t0

    terms = np.concatenate([a.ravel() for a in term_ids])
    docs = np.concatenate([a.ravel() for a in doc_ids])
    wts = np.concatenate([a.ravel() for a in term_w])
    order = np.lexsort((docs, terms))
    terms, docs, wts = terms[order], docs[order], wts[order]
    uniq, starts = np.unique(terms, return_index=True)
    ends = np.append(starts[1:], len(terms))
    postings = {int(u): (s, e) for u, s, e in zip(uniq, starts, ends)}

    query = passages[3][:6]
    scores = defaultdict(float)
    for q in set(query.tolist()):
        if q in postings:
            s, e = postings[q]
            for d, w in zip(docs[s:e], wts[s:e]):
                scores[int(d)] += float(w)
    top = sorted(scores.items(), key=lambda kv: -kv[1])[:3]
    assert np.isfinite(wts).all() and (wts >= 0).all()
    print(
        f"indexed {len(passages)} passages, {len(uniq)} terms with postings, "
        f"longest list {int((ends - starts).max())}"
    )
    print(f"encode {t_enc:.2f} s total; sample query top docs: {top}")


if __name__ == "__main__":
    main()
