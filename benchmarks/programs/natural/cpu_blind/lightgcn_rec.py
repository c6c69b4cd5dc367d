"""LightGCN collaborative filtering with BPR loss on implicit feedback.

He et al., SIGIR 2020: embeddings are propagated over the normalised user-item graph
and the layer outputs averaged; no feature transforms, no non-linearities.
"""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
rng = np.random.default_rng(0)

N_USERS, N_ITEMS = 3200, 2000
DIM, LAYERS = 64, 3
BATCH = 4096


def synthetic_interactions():
    """Users and items live in a latent taste space; popularity is long tailed."""
    u = rng.normal(size=(N_USERS, 6))
    v = rng.normal(size=(N_ITEMS, 6))
    pop = rng.zipf(1.6, size=N_ITEMS).clip(max=200)
    logits = 1.3 * u @ v.T + np.log(pop)[None, :]
    gumbel = rng.gumbel(size=logits.shape)
    activity = rng.integers(12, 40, size=N_USERS)
    ranked = np.argsort(-(logits + gumbel), axis=1)
    train, test = [], []
    for i, k in enumerate(activity):
        items = ranked[i, :k]
        rng.shuffle(items)
        cut = max(1, k // 5)
        test.append(items[:cut])
        train.append(np.stack([np.full(k - cut, i), items[cut:]], 1))
    return np.concatenate(train), test


class LightGCN(nn.Module):
    def __init__(self, edges):
        super().__init__()
        self.user_emb = nn.Parameter(0.1 * torch.randn(N_USERS, DIM))
        self.item_emb = nn.Parameter(0.1 * torch.randn(N_ITEMS, DIM))
        u = torch.as_tensor(edges[:, 0])
        i = torch.as_tensor(edges[:, 1]) + N_USERS
        src, dst = torch.cat([u, i]), torch.cat([i, u])
        deg = torch.bincount(src, minlength=N_USERS + N_ITEMS).clamp_min(1).float()
        weight = (deg[src] * deg[dst]).rsqrt()
        self.register_buffer("src", src)
        self.register_buffer("dst", dst)
        self.register_buffer("weight", weight)

    def propagate(self, x):
        msg = x[self.src] * self.weight[:, None]
        return torch.zeros_like(x).index_add_(0, self.dst, msg)

    def embeddings(self):
        x = torch.cat([self.user_emb, self.item_emb])
        total = x
        for _ in range(LAYERS):
            x = self.propagate(x)
            total = total + x
        total = total / (LAYERS + 1)
        return total[:N_USERS], total[N_USERS:]

    def forward(self, users, pos, neg):
        eu, ei = self.embeddings()
        u, p, n = eu[users], ei[pos], ei[neg]
        bpr = -F.logsigmoid((u * p).sum(1) - (u * n).sum(1)).mean()
        reg = (
            self.user_emb[users].square().sum()
            + self.item_emb[pos].square().sum()
            + self.item_emb[neg].square().sum()
        ) / users.shape[0]
        return bpr + 1e-4 * reg


class BPRSampler:
    def __init__(self, edges):
        self.edges = edges
        self.known = np.unique(edges[:, 0] * N_ITEMS + edges[:, 1])

    def sample(self, n):
        pick = self.edges[rng.integers(len(self.edges), size=n)]
        neg = rng.integers(N_ITEMS, size=n)
        clash = np.isin(pick[:, 0] * N_ITEMS + neg, self.known, assume_unique=False)
        while clash.any():
            neg[clash] = rng.integers(N_ITEMS, size=clash.sum())
            clash = np.isin(pick[:, 0] * N_ITEMS + neg, self.known)
        return tuple(torch.from_numpy(a) for a in (pick[:, 0].copy(), pick[:, 1].copy(), neg))


@torch.no_grad()
def evaluate(model, edges, test, k=20, n_users=1000):
    eu, ei = model.embeddings()
    scores = eu[:n_users] @ ei.T
    seen = edges[edges[:, 0] < n_users]
    scores[torch.as_tensor(seen[:, 0]), torch.as_tensor(seen[:, 1])] = -1e9
    top = scores.topk(k, dim=1).indices.numpy()
    recall, ndcg = [], []
    disc = 1.0 / np.log2(np.arange(2, k + 2))
    for row, held in zip(top, test):
        hit = np.isin(row, held)
        recall.append(hit.sum() / min(len(held), k))
        ndcg.append((hit * disc).sum() / disc[: min(len(held), k)].sum())
    return float(np.mean(recall)), float(np.mean(ndcg))


def main():
    edges, test = synthetic_interactions()
    print(f"{len(edges)} training interactions, {sum(map(len, test))} held out")
    model = LightGCN(edges)
    step_loss = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    sampler = BPRSampler(edges)
    t0, seen = time.perf_counter(), 0
    for it in range(1, 61):
        users, pos, neg = sampler.sample(BATCH)
        loss = step_loss(users, pos, neg)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += BATCH
        if it % 15 == 0:
            recall, ndcg = evaluate(model, edges, test)
            rate = seen / (time.perf_counter() - t0)
            print(
                f"iter {it:3d}  loss {loss.item():.4f}  recall@20 {recall:.4f}  ndcg@20 {ndcg:.4f}"
                f"  {rate:,.0f} triples/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
