"""Ranking worker of a recipe app: scores the candidates of one request at a time
with a two-part model (history attention + MLP) and returns the best ten."""

import random
import statistics
import time

import torch
from torch import nn

torch.manual_seed(99)
random.seed(99)

RECIPES = 50_000
CUISINES = 40
DIM = 48
REQUESTS = 16000


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.recipe = nn.Embedding(RECIPES, DIM)
        self.cuisine = nn.Embedding(CUISINES, 16)
        self.hour = nn.Embedding(24, 8)
        self.tags = nn.EmbeddingBag(2000, DIM, mode="mean")
        self.query = nn.Linear(DIM, DIM)
        self.key = nn.Linear(DIM, DIM)
        width = DIM * 3 + 16 + 8 + 4
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 256),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Linear(256, 128),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Linear(128, 2),
        )

    def forward(self, ids, cuisine, tags, stats, history, hour):
        n = ids.shape[0]
        cand = self.recipe(ids)
        hist = self.recipe(history)
        att = self.query(cand) @ self.key(hist).T / DIM**0.5
        att = torch.softmax(att, dim=-1)
        interest = att @ hist
        hour_vec = self.hour(torch.tensor(hour)).expand(n, -1)
        dense = torch.log1p(stats)
        x = torch.cat([cand, interest, self.tags(tags), self.cuisine(cuisine), hour_vec, dense], dim=-1)
        click, save = self.mlp(x).unbind(-1)
        return torch.sigmoid(click) + 2.0 * torch.sigmoid(save)


def make_request(rng):
    n = rng.choice([60, 120, 200, 200, 350, 500]) + rng.randrange(40)
    h = rng.randint(3, 80)
    return {
        "ids": torch.randint(0, RECIPES, (n,)),
        "cuisine": torch.randint(0, CUISINES, (n,)),
        "tags": torch.randint(0, 2000, (n, 6)),
        "stats": torch.rand(n, 4) * 500,
        "history": torch.randint(0, RECIPES, (h,)),
        "hour": rng.randrange(24),
    }


class Worker:
    def __init__(self):
        self.model = Ranker().eval()
        self.score = torch.compile(self.model)

    @torch.inference_mode()
    def handle(self, request):
        scores = self.score(**request)
        top = scores.topk(10)
        chosen = request["ids"][top.indices].tolist()
        # do not show the same cuisine more than four times
        seen, result = {}, []
        for rid, idx in zip(chosen, top.indices.tolist()):
            c = int(request["cuisine"][idx])
            if seen.get(c, 0) < 4:
                seen[c] = seen.get(c, 0) + 1
                result.append(rid)
        return result


def main():
    rng = random.Random(4)
    pool = [make_request(rng) for _ in range(600)]
    worker = Worker()
    for r in pool[:5]:
        worker.handle(r)  # warm up

    latencies, shown = [], 0
    checksum = 0
    start = time.time()
    for i in range(REQUESTS):
        t0 = time.perf_counter()
        result = worker.handle(pool[i % len(pool)])
        latencies.append(1e3 * (time.perf_counter() - t0))
        shown += len(result)
        checksum = (checksum * 31 + result[0]) % 1_000_003
    elapsed = time.time() - start
    latencies.sort()
    print(
        f"{REQUESTS} requests, {REQUESTS / elapsed:.0f} requests/s, "
        f"{shown / REQUESTS:.2f} recipes shown on average"
    )
    print(
        f"latency ms: p50 {statistics.median(latencies):.2f}  "
        f"p95 {latencies[int(0.95 * REQUESTS)]:.2f}  max {latencies[-1]:.1f}"
    )
    print("checksum", checksum)


if __name__ == "__main__":
    main()
