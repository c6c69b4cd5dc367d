"""Continued masked-LM pretraining of a small DeBERTa-style encoder on clinical notes.

Disentangled attention (content-to-content, content-to-position,
position-to-content) with shared relative embeddings, bf16 autocast, the loss
compiled as one piece.  Tokens are synthetic (Zipf) so the script runs anywhere.
"""

import argparse
import contextlib
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

MASK_ID, PAD_ID, N_SPECIAL = 4, 0, 5


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--layers", type=int, default=6)
    ap.add_argument("--dim", type=int, default=512)
    ap.add_argument("--heads", type=int, default=8)
    ap.add_argument("--vocab", type=int, default=28996)
    ap.add_argument("--seq", type=int, default=256)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--span", type=int, default=128)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--lr", type=float, default=2e-4)
    return ap.parse_args()


class DisentangledSelfAttention(nn.Module):
    def __init__(self, dim, heads, span, dropout):
        super().__init__()
        self.heads, self.dh, self.span = heads, dim // heads, span
        self.qkv = nn.Linear(dim, 3 * dim)
        self.pos_q = nn.Linear(dim, dim)
        self.pos_k = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def _heads(self, x):
        return x.view(*x.shape[:-1], self.heads, self.dh).transpose(-2, -3)

    def forward(self, x, rel_emb, rel_idx, mask):
        q, k, v = (self._heads(t) for t in self.qkv(x).chunk(3, dim=-1))
        pk = self._heads(self.pos_k(rel_emb))  # (H, 2*span, d)
        pq = self._heads(self.pos_q(rel_emb))
        b, h, n, _ = q.shape
        scale = 1.0 / math.sqrt(3 * self.dh)

        scores = q @ k.transpose(-1, -2)
        idx = rel_idx.expand(b, h, n, n)
        c2p = q @ pk.transpose(-1, -2)
        scores = scores + torch.gather(c2p, -1, idx)
        p2c = k @ pq.transpose(-1, -2)
        scores = scores + torch.gather(p2c, -1, idx).transpose(-1, -2)

        scores = (scores * scale).masked_fill(~mask, torch.finfo(scores.dtype).min)
        att = self.drop(scores.softmax(dim=-1))
        y = (att @ v).transpose(1, 2).reshape(b, n, -1)
        return self.out(y)


class Layer(nn.Module):
    def __init__(self, dim, heads, span, dropout=0.1):
        super().__init__()
        self.att = DisentangledSelfAttention(dim, heads, span, dropout)
        self.n1 = nn.LayerNorm(dim, eps=1e-7)
        self.ff1 = nn.Linear(dim, 4 * dim)
        self.ff2 = nn.Linear(4 * dim, dim)
        self.n2 = nn.LayerNorm(dim, eps=1e-7)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, rel_emb, rel_idx, mask):
        x = self.n1(x + self.drop(self.att(x, rel_emb, rel_idx, mask)))
        return self.n2(x + self.drop(self.ff2(F.gelu(self.ff1(x)))))


class DebertaMLM(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.span = a.span
        self.tok = nn.Embedding(a.vocab, a.dim, padding_idx=PAD_ID)
        self.rel = nn.Embedding(2 * a.span, a.dim)
        self.emb_norm = nn.LayerNorm(a.dim)
        self.rel_norm = nn.LayerNorm(a.dim)
        self.layers = nn.ModuleList([Layer(a.dim, a.heads, a.span) for _ in range(a.layers)])
        self.head = nn.Sequential(nn.Linear(a.dim, a.dim), nn.GELU(), nn.LayerNorm(a.dim))
        self.bias = nn.Parameter(torch.zeros(a.vocab))
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids):
        n = ids.shape[1]
        pos = torch.arange(n, device=ids.device)
        rel_idx = (pos[:, None] - pos[None, :] + self.span).clamp(0, 2 * self.span - 1)
        mask = (ids != PAD_ID)[:, None, None, :]
        x = self.emb_norm(self.tok(ids))
        rel = self.rel_norm(self.rel.weight)
        for layer in self.layers:
            x = layer(x, rel, rel_idx, mask)
        return F.linear(self.head(x), self.tok.weight, self.bias)


def corrupt(ids, gen, vocab):
    """80/10/10 masking of 15 % of the real tokens."""
    labels = ids.clone()
    r = torch.rand(ids.shape, generator=gen)
    chosen = (r < 0.15) & (ids >= N_SPECIAL)
    labels[~chosen] = -100
    ids = ids.clone()
    ids[chosen & (r < 0.12)] = MASK_ID
    rnd = chosen & (r >= 0.135)
    ids[rnd] = torch.randint(N_SPECIAL, vocab, (int(rnd.sum()),), generator=gen)
    return ids, labels


def make_batches(a, count):
    gen = torch.Generator().manual_seed(1234)
    probs = 1.0 / torch.arange(10, a.vocab - N_SPECIAL + 10, dtype=torch.float)
    for _ in range(count):
        ids = torch.multinomial(probs, a.batch * a.seq, replacement=True, generator=gen)
        ids = ids.view(a.batch, a.seq) + N_SPECIAL
        lengths = torch.randint(a.seq // 2, a.seq + 1, (a.batch, 1), generator=gen)
        ids[torch.arange(a.seq)[None] >= lengths] = PAD_ID
        yield corrupt(ids, gen, a.vocab)


def main():
    a = get_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = DebertaMLM(a).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.01, fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 20))

    @torch.compile
    def loss_fn(ids, labels):
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(ids)
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)

    def train_step(ids, labels):
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(ids, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        return loss.detach()

    batches = list(make_batches(a, 8))
    if device == "cuda":
        batches = [(x.pin_memory(), y.pin_memory()) for x, y in batches]
    sync = torch.cuda.synchronize if device == "cuda" else contextlib.nullcontext

    losses, t0 = [], None
    for step in range(a.steps + 4):
        if step == 4:
            sync()
            t0 = time.perf_counter()
        x, y = batches[step % len(batches)]
        losses.append(train_step(x.to(device, non_blocking=True), y.to(device, non_blocking=True)))
    sync()
    dt = (time.perf_counter() - t0) / a.steps
    print(
        f"params {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M  "
        f"loss {losses[0].item():.3f} -> {losses[-1].item():.3f}"
    )
    print(f"{dt * 1e3:.2f} ms/step, {a.batch * a.seq / dt / 1e3:.0f}k tokens/s")


if __name__ == "__main__":
    main()
