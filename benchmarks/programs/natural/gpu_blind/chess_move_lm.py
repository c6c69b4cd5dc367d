"""A small decoder-only language model over chess games written as UCI moves: one token per move, trained to predict
the next move, with perplexity on held-out games from time to time."""

import math
import os
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"


@dataclass
class Config:
    vocab: int = 1984  # all from-to pairs a piece can make, promotions, specials
    context: int = 32 if SMOKE else 512
    dim: int = 64 if SMOKE else 768
    heads: int = 4 if SMOKE else 12
    layers: int = 2 if SMOKE else 8
    batch: int = 2 if SMOKE else 32
    steps: int = 4 if SMOKE else 260
    lr: float = 6e-4


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        h = x.float()
        return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.n1, self.n2 = RMSNorm(c.dim), RMSNorm(c.dim)
        self.qkv = nn.Linear(c.dim, 3 * c.dim, bias=False)
        self.out = nn.Linear(c.dim, c.dim, bias=False)
        self.up = nn.Linear(c.dim, 2 * 2 * c.dim, bias=False)
        self.down = nn.Linear(2 * c.dim, c.dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        gate, val = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.gelu(gate, approximate="tanh") * val)


class MoveLM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.dim)
        half = c.dim // c.heads // 2
        angle = torch.outer(torch.arange(c.context).float(), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Games:
    """Synthetic games: a sparse Markov chain over moves with openings that many games share."""

    def __init__(self, c, seed):
        self.c = c
        self.gen = torch.Generator(device=DEV).manual_seed(seed)
        g = torch.Generator().manual_seed(77)
        self.next = torch.randint(4, c.vocab, (c.vocab, 24), generator=g).to(DEV)
        p = torch.arange(1, 25).float() ** -1.2
        self.p = (p / p.sum()).to(DEV)

    def batch(self):
        n, t = self.c.batch, self.c.context
        choice = torch.multinomial(self.p.expand(n, -1), t, replacement=True, generator=self.gen)
        cur = torch.ones(n, dtype=torch.long, device=DEV)
        seq = [cur]
        for i in range(t):
            cur = self.next[cur, choice[:, i]]
            seq.append(cur)
        seq = torch.stack(seq, 1)
        return seq[:, :-1], seq[:, 1:]


def main():
    torch.manual_seed(0)
    c = Config()
    model = MoveLM(c).to(DEV)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=c.lr,
        betas=(0.9, 0.95),
        fused=DEV == "cuda",
    )
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1, (s + 1) / 20) * (0.1 + 0.45 * (1 + math.cos(math.pi * min(s / c.steps, 1))))
    )
    net = torch.compile(model)
    train, held = Games(c, 1), Games(c, 2)
    data = [train.batch() for _ in range(2 if SMOKE else 40)]
    test = [held.batch() for _ in range(2 if SMOKE else 8)]
    print(
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, {c.batch * c.context} moves per step"
    )

    start, losses = time.perf_counter(), []
    for step in range(c.steps):
        x, y = data[step % len(data)]
        with torch.autocast(DEV, dtype=torch.bfloat16):
            loss = net(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        sched.step()
        losses.append(loss.detach())
        if (step + 1) % (c.steps // 4) == 0:
            mean = torch.stack(losses[-20:]).mean().item()
            rate = (step + 1) * c.batch * c.context / (time.perf_counter() - start)
            with torch.no_grad(), torch.autocast(DEV, dtype=torch.bfloat16):
                val = torch.stack([net(a, b) for a, b in test]).mean().item()
            print(
                f"step {step + 1:4d}  loss {mean:.4f}  held-out perplexity {math.exp(val):.1f}  {rate / 1e3:.0f}k moves/s"
            )


if __name__ == "__main__":
    main()
