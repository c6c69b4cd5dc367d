"""Named entity tagger: word + character features, bidirectional LSTM, linear tag layer."""

import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 8000
    chars: int = 96
    word_dim: int = 100
    char_dim: int = 16
    char_filters: int = 30
    hidden: int = 160
    layers: int = 2
    tags: int = 17
    batch: int = 16
    seq_len: int = 48
    word_len: int = 10


class CharCNN(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.chars, cfg.char_dim, padding_idx=0)
        self.conv = nn.Conv1d(cfg.char_dim, cfg.char_filters, 3, padding=1)

    def forward(self, chars):
        b, t, c = chars.shape
        e = self.emb(chars.view(b * t, c)).transpose(1, 2)
        h = F.relu(self.conv(e)).amax(dim=-1)
        return h.view(b, t, -1)


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.words = nn.Embedding(cfg.vocab, cfg.word_dim)
        self.chars = CharCNN(cfg)
        d_in = cfg.word_dim + cfg.char_filters
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(d_in, cfg.hidden, num_layers=cfg.layers, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(2 * cfg.hidden)
        self.highway = nn.Linear(2 * cfg.hidden, 2 * cfg.hidden)
        self.gate = nn.Linear(2 * cfg.hidden, 2 * cfg.hidden)
        self.out = nn.Linear(2 * cfg.hidden, cfg.tags)

    def forward(self, words, chars, mask):
        x = torch.cat([self.words(words), self.chars(chars)], dim=-1)
        h, _ = self.lstm(self.drop(x))
        h = self.norm(h)
        g = torch.sigmoid(self.gate(h))
        h = g * F.relu(self.highway(h)) + (1 - g) * h
        logits = self.out(self.drop(h))
        return logits.masked_fill(~mask[..., None], 0.0)


def random_batch(cfg, gen):
    words = torch.randint(1, cfg.vocab, (cfg.batch, cfg.seq_len), generator=gen)
    chars = torch.randint(0, cfg.chars, (cfg.batch, cfg.seq_len, cfg.word_len), generator=gen)
    lengths = torch.randint(cfg.seq_len // 2, cfg.seq_len + 1, (cfg.batch,), generator=gen)
    mask = torch.arange(cfg.seq_len)[None, :] < lengths[:, None]
    return words, chars, mask


def main():
    torch.manual_seed(0)
    cfg = Config()
    gen = torch.Generator().manual_seed(99)
    model = Tagger(cfg).eval()
    tagger = torch.compile(model)
    batches = [random_batch(cfg, gen) for _ in range(10)]

    with torch.no_grad():
        for i in range(5):
            tagger(*batches[i])

        n = 40
        hist = torch.zeros(cfg.tags)
        score = 0.0
        start = time.perf_counter()
        for i in range(n):
            words, chars, mask = batches[i % len(batches)]
            logits = tagger(words, chars, mask)
            pred = logits.argmax(dim=-1)
            hist += torch.bincount(pred[mask], minlength=cfg.tags)
            score += logits.sum().item()
        per_batch = (time.perf_counter() - start) / n

    tokens = cfg.batch * cfg.seq_len
    print(f"time per batch: {per_batch * 1e3:.2f} ms ({tokens / per_batch:.0f} tokens/s)")
    print("tag histogram:", [int(v) for v in hist])
    print(f"checksum: {score:.4f}")


if __name__ == "__main__":
    main()
