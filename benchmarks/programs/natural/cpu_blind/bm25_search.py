"""Keyword search over a support-article archive: BM25 with field boosts, batch of queries."""

import argparse
import math
import time

import numpy as np
import torch


class Archive:
    """Dense term-frequency tables (the vocabulary is already pruned to the useful terms)."""

    def __init__(self, docs, vocab, seed):
        rng = np.random.default_rng(seed)
        lengths = np.clip(rng.lognormal(4.3, 0.5, docs), 15, 400).astype(np.int64)
        body = np.zeros((docs, vocab), np.uint8)
        title = np.zeros((docs, vocab), np.uint8)
        for d in range(docs):
            words = np.minimum((rng.pareto(0.9, lengths[d]) * 8).astype(np.int64), vocab - 1)
            words[-8:] = rng.integers(0, vocab, 8)
            body[d] = np.minimum(np.bincount(words, minlength=vocab), 255)
            title[d, rng.choice(words, 5)] = 1
        self.body = torch.from_numpy(body)
        self.title = torch.from_numpy(title)
        self.length = torch.from_numpy(lengths).float()
        self.age_days = torch.from_numpy(rng.exponential(400, docs)).float()
        self.votes = torch.from_numpy(rng.poisson(3, docs)).long()
        self.df = (self.body > 0).sum(0)

    def __len__(self):
        return self.body.shape[0]


def idf(df, n):
    return torch.log(1.0 + (n - df + 0.5) / (df + 0.5))


def bm25(tf, norm, k1=1.4):
    return tf * (k1 + 1) / (tf + k1 * norm)


def score_queries(body, title, length, age_days, votes, df, terms, weight, k):
    """terms [Q, L] (padded with 0, weight 0) -> top-k scores and documents."""
    q, l = terms.shape
    flat = terms.reshape(-1)
    tf_body = body[:, flat].float().view(-1, q, l)
    tf_title = title[:, flat].float().view(-1, q, l)

    b = 0.72
    norm_body = (1 - b + b * length / length.mean())[:, None, None]
    w = (weight * idf(df[terms].float(), body.shape[0]))[None]
    s = (bm25(tf_body, norm_body) + 2.2 * bm25(tf_title, torch.ones_like(norm_body))) * w
    score = s.sum(dim=-1)

    matched = ((tf_body > 0) & (weight > 0)).float().sum(-1)
    coverage = matched / (weight > 0).float().sum(-1).clamp(min=1)
    score = score * (0.5 + 0.5 * coverage)

    recency = 0.15 * torch.exp(-age_days / 365.0)
    popularity = 0.05 * torch.log1p(votes.float())
    score = score * (1.0 + recency + popularity)[:, None]
    return torch.topk(score.t(), k, dim=-1)


def query_stream(batches, size, df, seed):
    """Query length differs from batch to batch (padded to the longest of the batch)."""
    rng = np.random.default_rng(seed)
    p = np.sqrt(df.numpy() + 1.0)
    p /= p.sum()
    out = []
    for _ in range(batches):
        lens = rng.integers(1, rng.integers(4, 9) + 1, size)
        width = int(lens.max())
        terms = rng.choice(len(p), size=(size, width), p=p)
        keep = np.arange(width)[None] < lens[:, None]
        out.append((torch.from_numpy(terms * keep), torch.from_numpy(keep).float()))
    return out


def dcg(scores):
    discount = 1.0 / torch.log2(torch.arange(scores.shape[-1]) + 2.0)
    return (scores * discount).sum(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--docs", type=int, default=12_000)
    ap.add_argument("--vocab", type=int, default=2_500)
    ap.add_argument("--queries", type=int, default=12)
    ap.add_argument("--batches", type=int, default=60)
    ap.add_argument("--top", type=int, default=10)
    args = ap.parse_args()

    archive = Archive(args.docs, args.vocab, seed=31)
    stream = query_stream(args.batches, args.queries, archive.df, seed=32)
    search = torch.compile(score_queries, dynamic=True)

    def run(terms, weight):
        return search(
            archive.body,
            archive.title,
            archive.length,
            archive.age_days,
            archive.votes,
            archive.df,
            terms,
            weight,
            args.top,
        )

    for terms, weight in stream[:4]:
        run(terms, weight)

    latencies, quality, seen = [], 0.0, set()
    for terms, weight in stream:
        t0 = time.perf_counter()
        values, index = run(terms, weight)
        latencies.append(time.perf_counter() - t0)
        quality += dcg(values).mean().item()
        seen.update(index[:, 0].tolist())

    lat = np.array(latencies) * 1e3
    print(
        f"mean dcg {quality / len(stream):.3f}, {len(seen)} distinct first hits of {len(archive)} documents"
    )
    print(
        f"{lat.mean():.2f} ms per batch (p50 {np.median(lat):.2f}, p95 {np.quantile(lat, 0.95):.2f}), "
        f"{math.floor(args.queries / lat.mean() * 1e3)} queries/s"
    )


if __name__ == "__main__":
    main()
