"""Wine shop search: dense retrieval with business boosts over the whole list, then MMR so that the page is varied."""

import time

import torch
import torch.nn.functional as F

torch.manual_seed(8)

N_WINES, DIM = 60_000, 192
QUERIES = 32
POOL, PAGE = 120, 20
LAMBDA = 0.65
REQUESTS = 150


def make_catalog():
    styles = torch.randn(80, DIM)
    style = torch.randint(80, (N_WINES,))
    emb = F.normalize(styles[style] + 0.7 * torch.randn(N_WINES, DIM), dim=1)
    return {
        "emb": emb,
        "log_price": torch.randn(N_WINES) * 0.6 + 2.8,
        "rating": 3 + 2 * torch.rand(N_WINES),
        "reviews": torch.poisson(torch.full((N_WINES,), 12.0)),
        "days_listed": torch.rand(N_WINES) * 900,
        "region": torch.randint(40, (N_WINES,)),
        "stock": torch.randint(0, 30, (N_WINES,)),
    }, styles


def make_queries(styles):
    pick = torch.randint(len(styles), (QUERIES, 2))
    q = F.normalize(styles[pick[:, 0]] + 0.5 * styles[pick[:, 1]] + torch.randn(QUERIES, DIM) * 0.3, dim=1)
    return {
        "emb": q,
        "log_budget": torch.randn(QUERIES) * 0.4 + 2.8,
        "home_region": torch.randint(40, (QUERIES,)),
    }


def relevance(q, cat):
    sim = q["emb"] @ cat["emb"].T
    over = (cat["log_price"][None] - q["log_budget"][:, None]) / 0.5
    price_fit = torch.exp(-0.5 * torch.where(over > 0, over, 0.4 * over) ** 2)
    bayes_rating = (cat["rating"] * cat["reviews"] + 3.8 * 10) / (cat["reviews"] + 10)
    fresh = torch.exp(-cat["days_listed"] / 180.0)
    local = (cat["region"][None] == q["home_region"][:, None]).float()
    score = sim + 0.25 * price_fit + 0.12 * (bayes_rating - 3.8)[None] + 0.05 * fresh[None] + 0.04 * local
    return torch.where(cat["stock"][None] > 0, score, -1e4)


@torch.compile
def search(q, cat):
    score = relevance(q, cat)
    rel, cand = score.topk(POOL, dim=1)
    vecs = cat["emb"][cand]
    pair = torch.bmm(vecs, vecs.transpose(1, 2))
    redundancy = torch.zeros_like(rel)
    taken = torch.zeros_like(rel, dtype=torch.bool)
    page = []
    for _ in range(PAGE):
        mmr = LAMBDA * rel - (1 - LAMBDA) * redundancy
        best = mmr.masked_fill(taken, -1e9).argmax(1)
        page.append(best)
        taken = taken.scatter(1, best[:, None], True)
        to_best = pair.gather(1, best[:, None, None].expand(-1, 1, POOL)).squeeze(1)
        redundancy = torch.maximum(redundancy, to_best)
    order = torch.stack(page, 1)
    return cand.gather(1, order), rel.gather(1, order)


def diversity(cat, ids):
    v = cat["emb"][ids]
    s = torch.bmm(v, v.transpose(1, 2))
    k = ids.shape[1]
    return (1 - (s.sum((1, 2)) - k) / (k * (k - 1))).mean().item()


def main():
    cat, styles = make_catalog()
    times, div, score = [], [], []
    with torch.no_grad():
        for _ in range(REQUESTS):
            q = make_queries(styles)
            t0 = time.perf_counter()
            ids, rel = search(q, cat)
            times.append(time.perf_counter() - t0)
            div.append(diversity(cat, ids))
            score.append(rel.mean().item())
    times = torch.tensor(times) * 1e3
    print(f"{REQUESTS} request batches of {QUERIES}")
    print(f"mean relevance {sum(score) / len(score):.4f}, mean diversity {sum(div) / len(div):.4f}")
    print(f"first page of the last query: {ids[-1, :8].tolist()}")
    print(f"median batch {times.median():.1f} ms, p95 {times.quantile(0.95):.1f} ms")


if __name__ == "__main__":
    main()
