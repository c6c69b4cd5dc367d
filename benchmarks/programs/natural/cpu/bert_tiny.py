"""Two-layer BERT encoder with token types, masking and a pooler, inference."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(dim, eps=1e-12), nn.LayerNorm(dim, eps=1e-12)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, bias):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = self.n1(x + self.o(y))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, vocab=30522, dim=256, heads=4, depth=2):
        super().__init__()
        self.word, self.pos, self.kind = (
            nn.Embedding(vocab, dim),
            nn.Embedding(512, dim),
            nn.Embedding(2, dim),
        )
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.pooler = nn.Linear(dim, dim)

    def forward(self, ids, kinds, mask):
        x = self.norm(self.word(ids) + self.pos.weight[: ids.shape[1]] + self.kind(kinds))
        bias = (1.0 - mask[:, None, None].float()) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, bias)
        return torch.tanh(self.pooler(x[:, 0]))


def build(device, compiled):
    torch.manual_seed(0)
    vocab = pick(30522, 100)
    model = Bert(vocab).to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    ids = torch.randint(vocab, (pick(4, 1), pick(128, 8)), device=device)
    kinds = (torch.arange(ids.shape[1], device=device) > ids.shape[1] // 2).long().expand_as(ids)
    mask = torch.ones_like(ids)
    mask[:, -ids.shape[1] // 4 :] = 0

    @torch.no_grad()
    def step():
        return model(ids, kinds, mask)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
