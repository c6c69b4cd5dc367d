"""Small decoder generating with a concatenated, growing cache."""

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
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, past):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x)), (k, v)


class Decoder(nn.Module):
    def __init__(self, vocab, dim=256, heads=4, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab)
        self.heads, self.dim = heads, dim

    def empty(self, batch, device):
        z = torch.zeros(batch, self.heads, 1, self.dim // self.heads, device=device)
        return [(z, z) for _ in self.layers]

    def forward(self, token, past):
        x = self.embed(token)
        new = []
        for layer, p in zip(self.layers, past):
            x, kv = layer(x, p)
            new.append(kv)
        return self.head(x[:, -1]).argmax(-1, keepdim=True), new


def build(device, compiled):
    torch.manual_seed(0)
    model = Decoder(pick(8000, 50)).to(device).eval()
    run = torch.compile(model, backend=BACKEND) if compiled else model
    batch, limit = 2, pick(128, 6)
    start = torch.zeros(batch, 1, dtype=torch.long, device=device)
    state = {"token": start, "past": model.empty(batch, device), "n": 0}

    @torch.no_grad()
    def step():
        if state["n"] == limit:
            state.update(token=start, past=model.empty(batch, device), n=0)
        state["token"], state["past"] = run(state["token"], state["past"])
        state["n"] += 1
        return state["token"]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
