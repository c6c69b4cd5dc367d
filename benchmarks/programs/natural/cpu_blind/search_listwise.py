"""Offline listwise evaluation of a hand-tunable search ranker.

Score = BM25F over three fields + freshness + click prior, with the knobs the
relevance team turns.  For each knob setting we compute per query the ListNet
cross entropy against graded labels and the entropy of the score distribution
(to catch settings that make the ranking too flat).
"""

import time

import torch
import torch.nn.functional as F

torch.manual_seed(5)

QUERIES, DOCS = 4000, 256
FIELDS = ("title", "body", "anchor")


class Corpus:
    def __init__(self, seed=77):
        g = torch.Generator().manual_seed(seed)

        def u(*shape):
            return torch.rand(*shape, generator=g)

        self.tf = {f: (u(QUERIES, DOCS) * m).floor() for f, m in zip(FIELDS, (3, 40, 8))}
        self.length = 0.3 + 2.0 * u(QUERIES, DOCS)  # relative to the average
        self.age_days = 400 * u(QUERIES, DOCS) ** 2
        self.clicks = (u(QUERIES, DOCS) ** 6 * 500).floor()
        self.idf = 1.0 + 6.0 * u(QUERIES, 1)
        rel = self.tf["title"] + 0.05 * self.tf["body"] + 2 * u(QUERIES, DOCS)
        grade = (rel - 1.5).clamp(0, 4).floor()
        self.target = F.softmax(1.3 * grade, dim=1)


class Knobs:
    """One point of the random search; tensors so that settings can change freely."""

    def __init__(self, g):
        r = torch.rand(9, generator=g)
        self.weights = torch.stack(
            [
                0.8 + 2.0 * r[0],  # title boost
                0.3 + 1.0 * r[1],  # body boost
                0.2 + 1.5 * r[2],  # anchor boost
                0.8 + 1.2 * r[3],  # k1
                0.3 + 0.6 * r[4],  # b
                0.1 + 1.0 * r[5],  # freshness boost
                1 / (20 + 100 * r[6]),  # decay per day
                0.05 + 0.4 * r[7],  # click prior
                0.5 + 1.0 * r[8],  # temperature
            ]
        )


@torch.compile
def listwise_eval(w, title, body, anchor, length, age, clicks, idf, target):
    norm = 1.0 - w[4] + w[4] * length
    tf = w[0] * title / norm + w[1] * body / norm + w[2] * anchor
    bm25 = idf * tf * (w[3] + 1.0) / (tf + w[3])
    fresh = w[5] * torch.exp(-age * w[6])
    prior = w[7] * torch.log1p(clicks)
    score = (bm25 + fresh + prior) * w[8]

    logp = F.log_softmax(score, dim=1)
    loss = -(target * logp).sum(1)
    entropy = -(logp.exp() * logp).sum(1)
    return loss, entropy


class RandomSearch:
    def __init__(self, corpus):
        self.c = corpus
        self.best = (float("inf"), None)

    @torch.inference_mode()
    def try_setting(self, knobs):
        c = self.c
        loss, entropy = listwise_eval(
            knobs.weights,
            c.tf["title"],
            c.tf["body"],
            c.tf["anchor"],
            c.length,
            c.age_days,
            c.clicks,
            c.idf,
            c.target,
        )
        flat = (entropy > 5.0).float().mean().item()
        value = loss.mean().item() + 2.0 * flat
        if value < self.best[0]:
            self.best = (value, knobs.weights.tolist())
        return value


def main():
    search = RandomSearch(Corpus())
    g = torch.Generator().manual_seed(2)
    settings = [Knobs(g) for _ in range(34)]
    for k in settings[:4]:
        search.try_setting(k)
    t0 = time.perf_counter()
    for k in settings[4:]:
        search.try_setting(k)
    dt = (time.perf_counter() - t0) / (len(settings) - 4)
    print(f"time per step: {dt * 1e3:.2f} ms")
    value, w = search.best
    print(f"result: best objective {value:.5f}, title boost {w[0]:.3f}, k1 {w[3]:.3f}")


if __name__ == "__main__":
    main()
