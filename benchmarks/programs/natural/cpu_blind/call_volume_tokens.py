"""Probabilistic forecasts of call-centre volume with a small language model over quantised values.

Each series is scaled by its mean, put into 200 bins, and continued token by token (half-hours, half a day ahead) with
temperature sampling.  The model is first fitted briefly on older weeks, then used in a rolling backtest; the sampled
paths give the quantiles and a pinball loss.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(48)

BINS = 200
EDGES = torch.linspace(-0.2, 4.0, BINS - 1)
CENTRES = torch.cat([EDGES[:1], (EDGES[1:] + EDGES[:-1]) / 2, EDGES[-1:]])
DIM, HEADS, LAYERS = 128, 4, 4
CONTEXT, HORIZON = 96, 24
MAXLEN = CONTEXT + HORIZON


def synth_centres(n, length):
    t = torch.arange(length)
    day = 2 * math.pi * t / 48
    out = []
    for _ in range(n):
        level = 40 + 160 * torch.rand(1)
        shape = torch.clamp(torch.sin(day - 1.6 + 0.3 * torch.randn(1)), min=0) ** 0.7
        second = 0.35 * torch.clamp(torch.sin(2 * day + torch.rand(1)), min=0)
        weekend = torch.where((t // 48) % 7 >= 5, 0.45, 1.0)
        rate = level * (0.05 + shape + second) * weekend
        out.append(torch.poisson(rate * torch.exp(0.1 * torch.randn(length))))
    return torch.stack(out)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, cache=None, pos=0):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0][:, :, pos : pos + t] = k
            cache[1][:, :, pos : pos + t] = v
            k, v = cache[0][:, :, : pos + t], cache[1][:, :, : pos + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 3 * DIM), nn.GELU(), nn.Linear(3 * DIM, DIM))

    def forward(self, x, cache=None, pos=0):
        x = x + self.attn(self.n1(x), cache, pos)
        return x + self.mlp(self.n2(x))


class ValueLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(BINS, DIM)
        self.slot = nn.Embedding(48, DIM)
        self.pos = nn.Embedding(MAXLEN, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, BINS)

    def forward(self, ids, slots, cache=None, pos=0):
        x = self.tok(ids) + self.slot(slots) + self.pos.weight[pos : pos + ids.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, None if cache is None else cache[i], pos)
        return self.head(self.norm(x))


def quantise(x):
    scale = x[:, :CONTEXT].mean(1, keepdim=True).clamp(min=1.0)
    return torch.bucketize(x / scale, EDGES), scale


def fit(model, data, steps=70):
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        rows = torch.randint(0, data.shape[0], (12,))
        start = torch.randint(0, data.shape[1] - MAXLEN, (12,))
        cols = start[:, None] + torch.arange(MAXLEN)
        ids, _ = quantise(data[rows[:, None], cols])
        logits = model(ids[:, :-1], cols[:, :-1] % 48)
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@torch.inference_mode()
def forecast(model, step, history, start_slot, samples, temperature=0.9):
    ids, scale = quantise(history)
    n = ids.shape[0]
    slots = (start_slot + torch.arange(MAXLEN)) % 48
    ids = ids.repeat_interleave(samples, 0)
    cache = [
        tuple(torch.zeros(n * samples, HEADS, MAXLEN, DIM // HEADS) for _ in range(2)) for _ in range(LAYERS)
    ]
    logits = model(ids, slots[:CONTEXT].expand(n * samples, -1), cache, 0)[:, -1]
    path = []
    for h in range(HORIZON):
        probs = torch.softmax(logits / temperature, dim=-1)
        nxt = torch.multinomial(probs, 1)
        path.append(CENTRES[nxt])
        logits = step(nxt, slots[CONTEXT + h].expand(n * samples, 1), cache, CONTEXT + h)[:, -1]
    return torch.cat(path, 1).view(n, samples, HORIZON) * scale[:, :, None]


def main():
    series = synth_centres(12, 48 * 21)
    model = ValueLM()
    loss = fit(model, series[:, : 48 * 14])
    model.eval()
    step = torch.compile(model)
    levels = torch.tensor([0.1, 0.5, 0.9])
    pinball, cover = [], []
    for origin in range(48 * 15, 48 * 15 + 24 * 9, 24):
        hist = series[:, origin - CONTEXT : origin]
        truth = series[:, origin : origin + HORIZON]
        paths = forecast(model, step, hist, origin - CONTEXT, samples=16)
        q = torch.quantile(paths, levels, dim=1)
        err = truth - q
        pinball.append(torch.maximum(levels.view(3, 1, 1) * err, (levels.view(3, 1, 1) - 1) * err).mean())
        cover.append(((truth >= q[0]) & (truth <= q[2])).float().mean())
    print(f"fit loss {loss:.3f}")
    print(f"pinball {torch.stack(pinball).mean():.3f}  80% coverage {torch.stack(cover).mean():.3f}")
    print("last medians", q[1, 0, ::6].tolist())


if __name__ == "__main__":
    main()
