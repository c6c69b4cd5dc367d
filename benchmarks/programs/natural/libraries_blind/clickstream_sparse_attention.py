"""Conversion prediction from web sessions: a small transformer whose attention
uses 1.5-entmax so that single page visits can be read off the attention maps.
"""

import time

import torch
from entmax import entmax15
from torch import nn

torch.manual_seed(0)

N_PAGES = 800
SESSION = 256
BATCH = 8
DIM = 128
HEADS = 4
LAYERS = 2
STEPS = 20


class SparseAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        attn = entmax15(scores, dim=-1)
        y = (attn @ v).transpose(1, 2).reshape(b, n, d)
        return self.out(y), attn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SparseAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        a, attn = self.attn(self.norm1(x))
        x = x + a
        return x + self.mlp(self.norm2(x)), attn


class SessionModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.page = nn.Embedding(N_PAGES, DIM)
        self.dwell = nn.Linear(1, DIM)
        self.pos = nn.Parameter(0.02 * torch.randn(SESSION, DIM))
        self.blocks = nn.ModuleList(Block(DIM, HEADS) for _ in range(LAYERS))
        self.head = nn.Linear(DIM, 1)

    def forward(self, pages, dwell):
        x = self.page(pages) + self.dwell(dwell[..., None]) + self.pos
        density = 0.0
        for block in self.blocks:
            x, attn = block(x)
            density = density + (attn > 0).float().mean()
        return self.head(x.mean(1)).squeeze(-1), density / LAYERS


def make_sessions(n, generator):
    pages = torch.randint(0, N_PAGES, (n, SESSION), generator=generator)
    dwell = torch.rand(n, SESSION, generator=generator).pow(3) * 4
    cart = (pages < 12).float() * dwell
    label = (cart.sum(1) > cart.sum(1).median()).float()
    return pages, dwell, label


def main():
    gen = torch.Generator().manual_seed(1)
    pages, dwell, label = make_sessions(512, gen)

    model = SessionModel()
    model = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    bce = nn.BCEWithLogitsLoss()

    times = []
    for step in range(STEPS):
        idx = torch.randint(0, len(label), (BATCH,), generator=gen)
        t0 = time.perf_counter()
        logit, density = model(pages[idx], dwell[idx])
        loss = bce(logit, label[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 5 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}  attended {100 * density.item():.1f} %")

    steady = sorted(times[2:])
    print(f"median step {1e3 * steady[len(steady) // 2]:.1f} ms")


if __name__ == "__main__":
    main()
