"""fastText-like language identification: hashed character n-grams -> mean embedding
-> linear layer. Synthetic 'languages' are Markov chains over letters."""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(0)

BUCKETS = 50_000
DIM = 32
N_LANG = 40
TEXT_LEN = 80
BATCH = 128
PAD = 0


class SyntheticLanguages:
    def __init__(self, n_lang, alphabet=28, seed=1):
        self.rng = np.random.default_rng(seed)
        logits = self.rng.normal(0, 1.4, (n_lang, alphabet, alphabet))
        p = np.exp(logits)
        self.cdf = np.cumsum(p / p.sum(-1, keepdims=True), axis=-1)
        self.alphabet = alphabet
        self.n_lang = n_lang

    def batch(self, size):
        lang = self.rng.integers(0, self.n_lang, size)
        out = np.zeros((size, TEXT_LEN), dtype=np.int64)
        cur = self.rng.integers(0, self.alphabet, size)
        for t in range(TEXT_LEN):
            u = self.rng.random(size)
            cur = np.minimum((self.cdf[lang, cur] < u[:, None]).sum(-1), self.alphabet - 1)
            out[:, t] = cur + 1
        lengths = self.rng.integers(TEXT_LEN // 2, TEXT_LEN + 1, size)
        out[np.arange(TEXT_LEN)[None] >= lengths[:, None]] = PAD
        return torch.from_numpy(out), torch.from_numpy(lang)


class NgramClassifier(nn.Module):
    def __init__(self, orders=(1, 2, 3)):
        super().__init__()
        self.orders = orders
        self.emb = nn.Embedding(BUCKETS, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, N_LANG)
        nn.init.normal_(self.emb.weight, std=0.1)

    def ngram_ids(self, chars, n):
        h = torch.full_like(chars[:, n - 1 :], 2166136261 + n)
        for i in range(n):
            h = ((h ^ chars[:, i : chars.shape[1] - (n - 1 - i)]) * 16777619) & 0xFFFFFFFF
        return h % BUCKETS

    def forward(self, chars):
        total, count = 0.0, 0.0
        for n in self.orders:
            ids = self.ngram_ids(chars, n)
            mask = (chars[:, n - 1 :] != PAD).unsqueeze(-1).float()
            total = total + (self.emb(ids) * mask).sum(1)
            count = count + mask.sum(1)
        return self.out(self.norm(total / count.clamp(min=1.0)))


def main():
    data = SyntheticLanguages(N_LANG)
    batches = [data.batch(BATCH) for _ in range(20)]
    held_out = data.batch(512)

    model = NgramClassifier()
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train_step(chars, lang):
        opt.zero_grad()
        loss = F.cross_entropy(compiled(chars), lang)
        loss.backward()
        opt.step()
        return loss.item()

    for chars, lang in batches[:3]:
        train_step(chars, lang)

    n_steps, losses = 60, []
    t0 = time.perf_counter()
    for i in range(n_steps):
        losses.append(train_step(*batches[i % len(batches)]))
    dt = time.perf_counter() - t0

    with torch.no_grad():
        acc = (model(held_out[0]).argmax(-1) == held_out[1]).float().mean().item()
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, held-out accuracy {acc:.3f}")
    print(f"{n_steps} steps, {1e3 * dt / n_steps:.2f} ms per step")


if __name__ == "__main__":
    main()
