"""News recommendation with multi-head self-attention (NRMS), trained on impression logs."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class AdditivePool(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.proj = nn.Linear(dim, hidden)
        self.query = nn.Linear(hidden, 1, bias=False)

    def forward(self, x, mask=None):
        score = self.query(torch.tanh(self.proj(x))).squeeze(-1)
        if mask is not None:
            score = score.masked_fill(~mask, -1e4)
        return (torch.softmax(score, dim=-1).unsqueeze(-1) * x).sum(dim=1)


class NewsEncoder(nn.Module):
    def __init__(self, vocab, dim, heads, dropout):
        super().__init__()
        self.words = nn.Embedding(vocab, dim, padding_idx=0)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.pool = AdditivePool(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, titles):
        mask = titles != 0
        x = self.drop(self.words(titles))
        y, _ = self.attn(x, x, x, key_padding_mask=~mask)
        return self.pool(self.drop(y), mask)


class NRMS(nn.Module):
    def __init__(self, vocab, dim=128, heads=8, dropout=0.1):
        super().__init__()
        self.news = NewsEncoder(vocab, dim, heads, dropout)
        self.user_attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.user_pool = AdditivePool(dim, dim)

    def encode(self, titles):
        b, n, t = titles.shape
        return self.news(titles.reshape(b * n, t)).view(b, n, -1)

    def forward(self, clicked, candidates):
        hist = self.encode(clicked)
        cand = self.encode(candidates)
        u, _ = self.user_attn(hist, hist, hist)
        u = self.user_pool(u)
        return torch.einsum("bd,bkd->bk", u, cand)


class ImpressionLog:
    """Fake MIND-like data: users have a topic, titles are drawn from topic word ranges."""

    def __init__(self, vocab, title_len, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.vocab = vocab
        self.title_len = title_len
        self.topics = 50

    def titles(self, topic):
        shape = topic.shape + (self.title_len,)
        span = self.vocab // self.topics
        local = (torch.rand(shape, generator=self.g) ** 2 * (span - 1)).long()
        words = topic.unsqueeze(-1) * span + local + 1
        anywhere = torch.randint(1, self.vocab, shape, generator=self.g)
        words = torch.where(torch.rand(shape, generator=self.g) < 0.4, anywhere, words)
        length = torch.randint(6, self.title_len + 1, topic.shape, generator=self.g)
        keep = torch.arange(self.title_len) < length.unsqueeze(-1)
        return words.clamp(max=self.vocab - 1) * keep

    def batch(self, size, history, negatives):
        user = torch.randint(0, self.topics, (size, 1), generator=self.g)
        noise = torch.randint(0, self.topics, (size, history), generator=self.g)
        own = torch.rand(size, history, generator=self.g) < 0.7
        clicked = self.titles(torch.where(own, user.expand_as(noise), noise))
        other = torch.randint(0, self.topics, (size, negatives), generator=self.g)
        candidates = self.titles(torch.cat([user, other], dim=1))
        return clicked, candidates


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vocab", type=int, default=42_000)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--history", type=int, default=25)
    ap.add_argument("--negatives", type=int, default=4)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()

    torch.manual_seed(7)
    log = ImpressionLog(args.vocab, title_len=18, seed=8)
    model = NRMS(args.vocab)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    target = torch.zeros(args.batch, dtype=torch.long)

    def loss_fn(clicked, candidates):
        return F.cross_entropy(model(clicked, candidates), target)

    compiled_loss = torch.compile(loss_fn)

    def train_step(clicked, candidates):
        opt.zero_grad()
        loss = compiled_loss(clicked, candidates)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.item()

    for _ in range(3):
        train_step(*log.batch(args.batch, args.history, args.negatives))

    data = [log.batch(args.batch, args.history, args.negatives) for _ in range(20)]
    running = None
    t0 = time.perf_counter()
    for step in range(args.steps):
        loss = train_step(*data[step % len(data)])
        running = loss if running is None else 0.95 * running + 0.05 * loss
    dt = time.perf_counter() - t0
    print(
        f"loss {running:.4f}   {dt / args.steps * 1e3:.1f} ms/step   {args.steps * args.batch / dt:.0f} users/s"
    )


if __name__ == "__main__":
    main()
