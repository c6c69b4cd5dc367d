"""Tabular transformer over per-column tokens, ReGLU, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Tokenizer(nn.Module):
    def __init__(self, numeric, cards, dim):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(numeric, dim) * 0.1),
            nn.Parameter(torch.zeros(numeric + len(cards), dim)),
        )
        self.tables = nn.ModuleList([nn.Embedding(c, dim) for c in cards])
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.1)

    def forward(self, num, cat):
        a = num[..., None] * self.weight
        b = torch.stack([t(cat[:, i]) for i, t in enumerate(self.tables)], 1)
        x = torch.cat([a, b], 1) + self.bias
        return torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1)


class Block(nn.Module):
    def __init__(self, dim, heads=8):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=0.1, batch_first=True)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        a, b = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.dropout(a * F.relu(b), 0.1, self.training))


class FTTransformer(nn.Module):
    def __init__(self, numeric=20, cards=(10, 50, 100, 7, 31), dim=128, depth=2):
        super().__init__()
        self.tok = Tokenizer(numeric, cards, dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, num, cat):
        x = self.tok(num, cat)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0]).squeeze(-1)


def build(device, compiled):
    torch.manual_seed(0)
    n, cards = pick(2048, 8), (10, 50, 100, 7, 31)
    model = FTTransformer(cards=cards).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    num = torch.randn(n, 20, device=device)
    cat = torch.stack([torch.randint(c, (n,), device=device) for c in cards], 1)
    y = torch.randn(n, device=device)

    def step():
        loss = F.huber_loss(forward(num, cat), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
