"""Masked language model on antibody heavy-chain sequences, trained in bf16 autocast."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
VOCAB, PAD, MASK = 25, 0, 24
LENGTH = 24 if SMOKE else 160
BATCH = 4 if SMOKE else 96
DIM = 32 if SMOKE else 768
HEADS = 4 if SMOKE else 12
LAYERS = 2 if SMOKE else 8
STEPS = 6 if SMOKE else 120


def rotary_tables(length, dim):
    freq = 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim)
    angle = torch.outer(torch.arange(length).float(), freq)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return h.type_as(x) * self.weight


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        hidden = int(dim * 8 / 3) // 8 * 8
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, keep, cos, sin):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(b, t, d)))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.dropout(self.down(F.silu(gate) * up))


class AntibodyMLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.region = nn.Embedding(7, DIM)
        self.blocks = nn.ModuleList(Block(DIM, HEADS) for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        self.head = nn.Sequential(nn.Linear(DIM, DIM), nn.GELU(), nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB))
        cos, sin = rotary_tables(LENGTH, DIM // HEADS)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens, region):
        keep = (tokens != PAD)[:, None, None, :]
        x = self.embed(tokens) + self.region(region)
        for block in self.blocks:
            x = block(x, keep, self.cos, self.sin)
        return self.head(self.norm(x))


def make_repertoire(n, gen):
    germline = torch.randint(1, 21, (40, LENGTH), generator=gen)
    family = torch.randint(0, 40, (n,), generator=gen)
    seq = germline[family]
    hyper = torch.rand(n, LENGTH, generator=gen) < 0.08
    seq = torch.where(hyper, torch.randint(1, 21, seq.shape, generator=gen), seq)
    length = torch.randint(int(LENGTH * 0.7), LENGTH + 1, (n,), generator=gen)
    position = torch.arange(LENGTH)
    seq = seq.masked_fill(position[None] >= length[:, None], PAD)
    region = (position[None].float() / length[:, None] * 7).long().clamp(max=6)
    return seq, region


def corrupt(seq):
    chosen = (torch.rand(seq.shape, device=seq.device) < 0.15) & (seq != PAD)
    labels = torch.where(chosen, seq, -100)
    dice = torch.rand(seq.shape, device=seq.device)
    noisy = torch.where(chosen & (dice < 0.8), MASK, seq)
    noisy = torch.where(chosen & (dice > 0.9), torch.randint_like(seq, 1, 21), noisy)
    return noisy, labels


def main():
    torch.manual_seed(11)
    torch.set_float32_matmul_precision("high")
    gen = torch.Generator().manual_seed(11)
    seqs, regions = make_repertoire(64 if SMOKE else 20000, gen)
    seqs, regions = seqs.to(DEVICE), regions.to(DEVICE)

    model = AntibodyMLM().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.05, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 20) * 0.5 * (1 + math.cos(math.pi * s / STEPS))
    )
    model.compile()

    start = time.time()
    for step in range(STEPS):
        pick = torch.randint(0, len(seqs), (BATCH,), device=DEVICE)
        noisy, labels = corrupt(seqs[pick])
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(noisy, regions[pick])
            loss = F.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f}")
    print(f"final loss {loss.item():.3f} in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
