"""Character language model with minGRU blocks ("Were RNNs All We Needed?", 2024).

The recurrence is evaluated for the whole sequence in parallel in log space.
Text is generated from a small grammar of ship's log entries.
"""

import math
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

DIM, DEPTH, SEQ, BATCH, STEPS = 128, 3, 256, 4, 150

SHIPS = "Argo Meridian Petrel Halcyon Dauntless Kestrel Amity Borealis".split()
WINDS = "NNE NE E SE S SSW SW W NW".split()
EVENTS = [
    "reefed topsails",
    "sighted whales to {w}",
    "spoke the brig {s}",
    "sounded {n} fathoms",
    "set all sail",
    "rain and heavy swell",
    "lost sight of the {s}",
    "caught {n} bonito",
]


def write_log(n_chars, rng):
    parts, size, day = [], 0, 1
    while size < n_chars:
        event = rng.choice(EVENTS).format(w=rng.choice(WINDS), s=rng.choice(SHIPS), n=rng.randint(3, 90))
        line = (
            f"Day {day}. {rng.choice(SHIPS)}, lat {rng.randint(0, 59)}.{rng.randint(0, 9)} N, "
            f"wind {rng.choice(WINDS)} force {rng.randint(1, 9)}; {event}.\n"
        )
        parts.append(line)
        size += len(line)
        day += 1
    return "".join(parts)[:n_chars]


def g(x):
    return torch.where(x >= 0, x + 0.5, x.sigmoid())


def log_g(x):
    return torch.where(x >= 0, (F.relu(x) + 0.5).log(), -F.softplus(-x))


def scan_log(log_coeffs, log_values):
    a_star = log_coeffs.cumsum(dim=1)
    log_h0_plus_b_star = (log_values - a_star).logcumsumexp(dim=1)
    return (a_star + log_h0_plus_b_star).exp()


class MinGRU(nn.Module):
    def __init__(self, dim, expansion=1.5):
        super().__init__()
        inner = int(dim * expansion)
        self.to_hidden_and_gate = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        hidden, gate = self.to_hidden_and_gate(x).chunk(2, dim=-1)
        log_coeffs = -F.softplus(gate)
        log_z = -F.softplus(-gate)
        return self.to_out(scan_log(log_coeffs, log_z + log_g(hidden)))


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale, self.gamma = dim**0.5, nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return F.normalize(x, dim=-1) * self.scale * (self.gamma + 1)


class CausalConv(nn.Module):
    def __init__(self, dim, kernel=3):
        super().__init__()
        self.pad = kernel - 1
        self.depthwise = nn.Conv1d(dim, dim, kernel, groups=dim)
        self.pointwise = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        x = F.pad(x.transpose(1, 2), (self.pad, 0))
        return self.pointwise(self.depthwise(x)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv = CausalConv(dim)
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.rnn = MinGRU(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = self.conv(x) + x
        x = self.rnn(self.norm1(x)) + x
        return self.ff(self.norm2(x)) + x


class CharLM(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, DIM)
        self.blocks = nn.ModuleList(Block(DIM) for _ in range(DEPTH))
        self.norm = RMSNorm(DIM)
        self.logits = nn.Linear(DIM, vocab, bias=False)

    def forward(self, tokens):
        x, labels = tokens[:, :-1], tokens[:, 1:]
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.logits(self.norm(h)).transpose(1, 2), labels)


def main():
    torch.manual_seed(0)
    text = write_log(400_000, random.Random(0))
    chars = sorted(set(text))
    lut = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([lut[c] for c in text])
    model = CharLM(len(chars))
    model.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    print(f"{len(chars)} characters, {sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters")
    tick = time.perf_counter()
    for step in range(1, STEPS + 1):
        start = torch.randint(0, len(data) - SEQ - 1, (BATCH,))
        tokens = data[start[:, None] + torch.arange(SEQ + 1)]
        loss = model(tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        opt.zero_grad()
        if step % 15 == 0:
            now = time.perf_counter()
            print(
                f"step {step:4d}  bits/char {loss.item() / math.log(2):.3f}  {(now - tick) / 15 * 1e3:.0f} ms/step"
            )
            tick = now


if __name__ == "__main__":
    main()
