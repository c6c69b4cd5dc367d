"""Self-attentive knowledge tracing (SAKT) on tutoring-system logs.

Predicts whether a student answers the next exercise correctly from the history
of (exercise, correct) interactions.  Synthetic logs from a simple IRT model
with learning, so the AUC should climb above chance quickly.
"""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


class SAKT(nn.Module):
    def __init__(self, n_exercises, d_model=64, heads=4, max_len=100, dropout=0.2):
        super().__init__()
        self.heads = heads
        self.interaction = nn.Embedding(2 * n_exercises + 1, d_model, padding_idx=0)
        self.exercise = nn.Embedding(n_exercises + 1, d_model, padding_idx=0)
        self.position = nn.Embedding(max_len, d_model)
        self.q_proj = nn.Linear(d_model, d_model)
        self.kv_proj = nn.Linear(d_model, 2 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * d_model, d_model)
        )
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(d_model, 1)

    def split_heads(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def attention(self, q, k, v):
        t = q.shape[-2]
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        causal = torch.triu(torch.ones(t, t, dtype=torch.bool, device=q.device), diagonal=1)
        scores = scores.masked_fill(causal, float("-inf"))
        weights = self.drop(torch.softmax(scores, dim=-1))
        return weights @ v

    def forward(self, past, target_ex):
        b, t = past.shape
        h = self.interaction(past) + self.position(torch.arange(t, device=past.device))
        q = self.exercise(target_ex)
        k, v = self.kv_proj(h).chunk(2, dim=-1)
        a = self.attention(self.split_heads(self.q_proj(q)), self.split_heads(k), self.split_heads(v))
        a = a.transpose(1, 2).reshape(b, t, -1)
        x = self.norm1(q + self.drop(self.out_proj(a)))
        x = self.norm2(x + self.drop(self.ffn(x)))
        return self.head(x).squeeze(-1)


class LogStore:
    """Students with ability that grows with practice; Zipf-like exercise use."""

    def __init__(self, students, n_exercises, max_len, gen):
        skill = torch.randn(students, 1, generator=gen)
        growth = 0.02 * torch.rand(students, 1, generator=gen)
        difficulty = torch.randn(n_exercises + 1, generator=gen)
        u = torch.rand(students, max_len + 1, generator=gen)
        self.ex = (n_exercises * u**3).long().clamp(max=n_exercises - 1) + 1
        t = torch.arange(max_len + 1)
        p = torch.sigmoid(1.5 * (skill + growth * t - difficulty[self.ex]))
        self.correct = (torch.rand(p.shape, generator=gen) < p).long()
        self.length = torch.randint(max_len // 4, max_len + 1, (students,), generator=gen)
        self.n_exercises = n_exercises

    def batch(self, rows):
        ex, corr = self.ex[rows], self.correct[rows]
        valid = torch.arange(ex.shape[1] - 1) < self.length[rows][:, None]
        past = (ex[:, :-1] + corr[:, :-1] * self.n_exercises).masked_fill(~valid, 0)
        target = ex[:, 1:].masked_fill(~valid, 0)
        return past, target, corr[:, 1:].float(), valid


def auc(score, label):
    order = torch.argsort(score)
    ranks = torch.empty_like(score)
    ranks[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label.bool()
    n1, n0 = pos.sum(), (~pos).sum()
    return ((ranks[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--students", type=int, default=4000)
    ap.add_argument("--exercises", type=int, default=26_688)  # ASSISTments-like catalogue
    ap.add_argument("--max-len", type=int, default=100)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)

    store = LogStore(args.students, args.exercises, args.max_len, gen)
    model = SAKT(args.exercises, max_len=args.max_len)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-5)
    net = torch.compile(model)

    def train_step():
        rows = torch.randint(0, args.students - 256, (args.batch,), generator=gen)
        past, target, label, valid = store.batch(rows)
        logits = net(past, target)
        loss = F.binary_cross_entropy_with_logits(logits[valid], label[valid])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.item()

    model.train()
    for _ in range(3):
        train_step()

    losses = []
    t0 = time.perf_counter()
    for step in range(args.steps):
        losses.append(train_step())
        if (step + 1) % 40 == 0:
            print(f"step {step + 1}: loss {sum(losses[-40:]) / 40:.4f}")
    dt = time.perf_counter() - t0

    model.eval()
    with torch.no_grad():
        past, target, label, valid = store.batch(torch.arange(args.students - 256, args.students))
        score = model(past, target)[valid]
    n_par = sum(p.numel() for p in model.parameters())
    print(f"{n_par / 1e6:.2f} M parameters, held-out AUC {auc(score, label[valid]):.3f}")
    print(f"{args.steps} steps in {dt:.2f} s ({1e3 * dt / args.steps:.1f} ms per step)")


if __name__ == "__main__":
    main()
