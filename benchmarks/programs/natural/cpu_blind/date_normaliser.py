"""Sequence to sequence model that turns dates as people write them into ISO dates.

GRU encoder, GRU decoder with additive attention, trained with scheduled sampling.
"""

import datetime
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
CHARS = "abcdefghijklmnopqrstuvwxyz0123456789 ,./-'"
PAD, BOS = 0, 1
STOI = {c: i + 2 for i, c in enumerate(CHARS)}
ISO_LEN = 10


def written(d):
    kind = random.randrange(6)
    month = MONTHS[d.month - 1]
    if kind == 0:
        return f"{DAYS[d.weekday()]}, {d.day} {month} {d.year}"
    if kind == 1:
        return f"{month[:3]} {d.day}, {d.year}"
    if kind == 2:
        return f"{d.day:02d}/{d.month:02d}/{d.year}"
    if kind == 3:
        return f"{d.day}.{d.month}.{d.year}"
    if kind == 4:
        return f"{d.day} {month[:3]} '{d.year % 100:02d}"
    return f"the {d.day} of {month} {d.year}"


def make_batch(n):
    base = datetime.date(1980, 1, 1).toordinal()
    dates = [datetime.date.fromordinal(base + random.randrange(16000)) for _ in range(n)]
    src = [[STOI[c] for c in written(d)] for d in dates]
    longest = max(len(s) for s in src)
    x = torch.tensor([s + [PAD] * (longest - len(s)) for s in src])
    y = torch.tensor([[STOI[c] for c in d.isoformat()] for d in dates])
    return x, y


class AdditiveAttention(nn.Module):
    def __init__(self, enc_dim, dec_dim, dim):
        super().__init__()
        self.w_enc = nn.Linear(enc_dim, dim, bias=False)
        self.w_dec = nn.Linear(dec_dim, dim)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, query, keys, memory, mask):
        e = self.v(torch.tanh(keys + self.w_dec(query)[:, None])).squeeze(-1)
        a = torch.softmax(e.masked_fill(~mask, -1e9), dim=-1)
        return torch.bmm(a[:, None], memory).squeeze(1)


class DateNormaliser(nn.Module):
    def __init__(self, vocab, emb=48, hidden=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.encoder = nn.GRU(emb, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.attention = AdditiveAttention(2 * hidden, hidden, hidden)
        self.cell = nn.GRUCell(emb + 2 * hidden, hidden)
        self.out = nn.Sequential(
            nn.Linear(3 * hidden, hidden), nn.Tanh(), nn.Dropout(0.1), nn.Linear(hidden, vocab)
        )

    def forward(self, src, tgt, teacher_forcing):
        mask = src != PAD
        memory, h = self.encoder(self.emb(src))
        h = torch.tanh(self.bridge(torch.cat([h[0], h[1]], dim=-1)))
        keys = self.attention.w_enc(memory)
        token = torch.full((src.size(0),), BOS, dtype=torch.long)
        logits = []
        for t in range(ISO_LEN):
            context = self.attention(h, keys, memory, mask)
            h = self.cell(torch.cat([self.emb(token), context], dim=-1), h)
            step = self.out(torch.cat([h, context], dim=-1))
            logits.append(step)
            if random.random() < teacher_forcing:
                token = tgt[:, t]
            else:
                token = step.argmax(dim=-1)
        return torch.stack(logits, dim=1)


def main():
    random.seed(3)
    torch.manual_seed(3)
    vocab = len(CHARS) + 2
    model = DateNormaliser(vocab)
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    steps = 50
    for step in range(steps):
        x, y = make_batch(128)
        forcing = 0.3 + 0.7 * math.exp(-step / 30)
        logits = net(x, y, forcing)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 10 == 0 or step == steps - 1:
            print(f"step {step:3d}  forcing {forcing:.2f}  loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        x, y = make_batch(256)
        pred = net(x, y, 0.0).argmax(-1)
    print(
        f"characters right {(pred == y).float().mean():.3f}, "
        f"whole dates right {(pred == y).all(1).float().mean():.3f}"
    )


if __name__ == "__main__":
    main()
