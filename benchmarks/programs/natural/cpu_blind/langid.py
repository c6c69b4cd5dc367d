"""Language identification from hashed character n-grams.

Texts from a set of synthetic languages (Markov chains over letters) are cut into
1- to 4-grams, hashed into buckets, averaged in an embedding bag and classified.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(2)

ALPHABET = 28
BUCKETS = 1 << 17
DIM = 32
LANGS = 12


class LanguageSource:
    """Random letter chains; related languages share a family prior."""

    def __init__(self, langs, seed=0):
        self.rng = np.random.default_rng(seed)
        family = self.rng.gamma(0.25, size=(4, ALPHABET, ALPHABET)) + 1e-3
        own = self.rng.gamma(0.25, size=(langs, ALPHABET, ALPHABET)) + 1e-3
        probs = family[np.arange(langs) % 4] + 0.9 * own
        self.cdf = np.cumsum(probs / probs.sum(-1, keepdims=True), axis=-1)

    def sample(self, n):
        labels = self.rng.integers(0, len(self.cdf), n)
        longest = 60
        chars = np.zeros((n, longest), dtype=np.int64)
        chars[:, 0] = self.rng.integers(0, ALPHABET, n)
        for t in range(1, longest):
            rows = self.cdf[labels, chars[:, t - 1]]
            u = self.rng.random((n, 1))
            chars[:, t] = np.minimum((rows < u).sum(-1), ALPHABET - 1)
        lengths = self.rng.integers(15, longest + 1, n)
        return [c[:k] for c, k in zip(chars, lengths)], labels


def ngrams(chars, orders=(1, 2, 3, 4)):
    out = []
    for order in orders:
        h = np.full(len(chars) - order + 1, 2166136261 + order, dtype=np.uint64)
        for j in range(order):
            h = h ^ (chars[j : len(chars) - order + 1 + j].astype(np.uint64) + np.uint64(97))
            h = (h * np.uint64(16777619)) & np.uint64(0xFFFFFFFF)
        out.append((h ^ (h >> np.uint64(15))) % np.uint64(BUCKETS))
    return np.concatenate(out).astype(np.int64)


def collate(texts, labels):
    ids = [ngrams(t) for t in texts]
    offsets = np.cumsum([0] + [len(i) for i in ids[:-1]])
    return (torch.from_numpy(np.concatenate(ids)), torch.from_numpy(offsets), torch.from_numpy(labels))


class LangID(nn.Module):
    def __init__(self, buckets=BUCKETS, dim=DIM, langs=LANGS, hidden=64):
        super().__init__()
        self.bag = nn.EmbeddingBag(buckets, dim, mode="mean")
        nn.init.normal_(self.bag.weight, std=0.3)
        self.head = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, hidden),
            nn.GELU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, langs),
        )

    def forward(self, ids, offsets):
        return self.head(self.bag(ids, offsets))


def evaluate(net, batches):
    net.eval()
    right = total = 0
    with torch.no_grad():
        for ids, offsets, y in batches:
            right += (net(ids, offsets).argmax(-1) == y).sum().item()
            total += len(y)
    net.train()
    return right / total


def main():
    torch.manual_seed(0)
    source = LanguageSource(LANGS)
    train = [collate(*source.sample(128)) for _ in range(80)]
    test = [collate(*source.sample(128)) for _ in range(4)]

    model = LangID()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, len(train))

    spent, seen, running = 0.0, 0, 0.0
    for step, (ids, offsets, y) in enumerate(train):
        t0 = time.perf_counter()
        loss = F.cross_entropy(net(ids, offsets), y, label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.head.parameters(), 1.0)
        opt.step()
        sched.step()
        if step >= 8:
            spent += time.perf_counter() - t0
            seen += 1
        running = 0.9 * running + 0.1 * loss.item()
        if step % 20 == 19:
            print(f"step {step + 1}: loss {running:.3f}")
    acc = evaluate(net, test)
    print(f"accuracy {acc:.3f} over {LANGS} languages")
    assert acc > 0.6
    print(f"time per step: {1e3 * spent / seen:.2f} ms")


if __name__ == "__main__":
    main()
