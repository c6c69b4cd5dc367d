"""Train a small biaffine dependency parser (arcs + relation labels)."""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 4000
N_TAGS = 18
N_RELS = 40
MAX_LEN = 48
BATCH = 16


class ConvEncoder(nn.Module):
    def __init__(self, dim, layers=2):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.convs = nn.ModuleList([nn.Conv1d(dim, 2 * dim, 5, padding=2) for _ in range(layers)])

    def forward(self, x):
        for norm, conv in zip(self.norms, self.convs):
            h = conv(norm(x).transpose(1, 2)).transpose(1, 2)
            x = x + F.glu(h, dim=-1)
        return x


class BiaffineParser(nn.Module):
    def __init__(self, dim=128, arc_dim=96, rel_dim=48):
        super().__init__()
        self.word = nn.Embedding(VOCAB, dim - 28)
        self.tag = nn.Embedding(N_TAGS, 28)
        self.encoder = ConvEncoder(dim)
        self.arc_dep = nn.Linear(dim, arc_dim)
        self.arc_head = nn.Linear(dim, arc_dim)
        self.rel_dep = nn.Linear(dim, rel_dim)
        self.rel_head = nn.Linear(dim, rel_dim)
        self.arc_w = nn.Parameter(torch.randn(arc_dim + 1, arc_dim) * 0.05)
        self.rel_w = nn.Parameter(torch.randn(N_RELS, rel_dim + 1, rel_dim + 1) * 0.05)

    @staticmethod
    def with_bias(x):
        return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)

    def forward(self, words, tags):
        x = torch.cat([self.word(words), self.tag(tags)], dim=-1)
        x = self.encoder(x)
        arc_d = self.with_bias(F.leaky_relu(self.arc_dep(x), 0.1))
        arc_h = F.leaky_relu(self.arc_head(x), 0.1)
        rel_d = self.with_bias(F.leaky_relu(self.rel_dep(x), 0.1))
        rel_h = self.with_bias(F.leaky_relu(self.rel_head(x), 0.1))
        arcs = arc_d @ self.arc_w @ arc_h.transpose(1, 2)
        rels = torch.einsum("bxi,oij,byj->bxyo", rel_d, self.rel_w, rel_h)
        return arcs, rels


def parser_loss(model, words, tags, heads, labels, mask):
    arcs, rels = model(words, tags)
    arcs = arcs.masked_fill(~mask[:, None, :], -1e4)
    arc_loss = F.cross_entropy(arcs.transpose(1, 2), heads, reduction="none")
    index = heads[:, :, None, None].expand(-1, -1, 1, rels.shape[-1])
    gold = rels.gather(2, index).squeeze(2)
    rel_loss = F.cross_entropy(gold.transpose(1, 2), labels, reduction="none")
    tokens = mask.sum()
    total = ((arc_loss + rel_loss) * mask).sum() / tokens
    uas = ((arcs.argmax(-1) == heads) & mask).sum() / tokens
    return total, uas


def make_treebank(rng, sentences):
    words = rng.zipf(1.3, size=(sentences, MAX_LEN)) % VOCAB
    tags = (words * 7 + rng.integers(0, 2, words.shape)) % N_TAGS
    lengths = rng.integers(30, MAX_LEN + 1, sentences)
    step = 1 + (tags % 3)
    pos = np.arange(MAX_LEN)[None]
    heads = np.maximum(pos - step, 0)
    labels = (tags * 2 + step) % N_RELS
    mask = pos < lengths[:, None]
    return [
        torch.from_numpy(np.ascontiguousarray(a))
        for a in (
            words.astype(np.int64),
            tags.astype(np.int64),
            heads.astype(np.int64),
            labels.astype(np.int64),
            mask,
        )
    ]


def main():
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    data = make_treebank(rng, 640)

    model = BiaffineParser()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.9))
    loss_fn = torch.compile(parser_loss)

    def step():
        idx = torch.from_numpy(rng.integers(0, 640, BATCH))
        loss, uas = loss_fn(model, *[t[idx] for t in data])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach(), uas

    for _ in range(3):
        step()

    times = []
    for it in range(50):
        t0 = time.perf_counter()
        loss, uas = step()
        times.append(time.perf_counter() - t0)
        if it % 10 == 9:
            print(f"step {it + 1:3d}  loss {loss.item():.3f}  UAS {uas.item():.3f}")
    print(f"median step {1e3 * np.median(times):.2f} ms")


if __name__ == "__main__":
    main()
