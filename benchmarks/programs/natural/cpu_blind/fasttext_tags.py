"""fastText-style tagger for support tickets: hashed word + bigram features."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(42)

VOCAB = 60_000
BUCKETS = 240_000
DIM = 64
N_TAGS = 120
MAX_LEN = 48
BATCH = 256
STEPS = 24


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + BUCKETS, DIM, padding_idx=0)
        self.norm = nn.LayerNorm(DIM)
        self.hidden = nn.Linear(DIM, 256)
        self.out = nn.Linear(256, N_TAGS)
        nn.init.normal_(self.emb.weight, std=0.1)

    def forward(self, words):
        left, right = words[:, :-1], words[:, 1:]
        bigrams = (left * 1_000_003 + right) % BUCKETS + VOCAB
        valid = (left > 0) & (right > 0)
        bigrams = torch.where(valid, bigrams, torch.zeros_like(bigrams))
        ids = torch.cat([words, bigrams], dim=1)
        e = self.emb(ids)
        w = (ids > 0).unsqueeze(-1).to(e.dtype)
        doc = (e * w).sum(1) / w.sum(1).clamp_min(1.0)
        return self.out(F.gelu(self.hidden(self.norm(doc))))


def make_corpus(n, gen):
    """Zipf words; every tag has a few hundred indicative words."""
    tags = torch.randint(N_TAGS, (n,), generator=gen)
    ranks = torch.rand(n, MAX_LEN, generator=gen)
    words = (VOCAB**ranks).long().clamp(1, VOCAB - 1)
    hint = 1000 + tags[:, None] * 300 + torch.randint(300, (n, MAX_LEN), generator=gen)
    use = torch.rand(n, MAX_LEN, generator=gen) < 0.2
    words = torch.where(use, hint, words)
    length = torch.randint(12, MAX_LEN + 1, (n, 1), generator=gen)
    words[torch.arange(MAX_LEN)[None, :] >= length] = 0
    return words, tags


def main():
    gen = torch.Generator().manual_seed(1)
    words, tags = make_corpus(BATCH * STEPS, gen)
    model = Tagger()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters")
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)

    times = []
    for step in range(STEPS):
        t0 = time.perf_counter()
        x = words[step * BATCH : (step + 1) * BATCH]
        y = tags[step * BATCH : (step + 1) * BATCH]
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 6 == 5:
            acc = (logits.argmax(1) == y).float().mean()
            print(f"step {step + 1:3d}  loss {loss.item():.3f}  acc {acc:.3f}")
    print(f"{sorted(times)[STEPS // 2] * 1e3:.0f} ms per step")


if __name__ == "__main__":
    main()
