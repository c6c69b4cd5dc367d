"""LambdaRank training of a product ranker on (synthetic) search sessions."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)

N_FEAT = 40
LIST = 224
QUERIES = 48
STEPS = 20
SIGMA = 1.0


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(N_FEAT, 64),
            nn.ReLU(),
            nn.Linear(64, 32),
            nn.ReLU(),
            nn.Linear(32, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


def lambda_loss(scores, rel, mask):
    """NDCG-weighted pairwise logistic loss; rel in {0..4}, mask marks real items."""
    with torch.no_grad():
        order = scores.masked_fill(~mask, -1e9).argsort(dim=1, descending=True)
        rank = torch.argsort(order, dim=1).float() + 1.0
        disc = 1.0 / torch.log2(rank + 1.0)
        gain = (2.0**rel - 1.0) * mask
        ideal = gain.sort(dim=1, descending=True).values
        pos = torch.arange(1, LIST + 1, dtype=torch.float32)
        idcg = (ideal / torch.log2(pos + 1.0)).sum(1).clamp_min(1e-6)
    dg = (gain[:, :, None] - gain[:, None, :]).abs()
    dd = (disc[:, :, None] - disc[:, None, :]).abs()
    weight = dg * dd / idcg[:, None, None]
    better = rel[:, :, None] > rel[:, None, :]
    valid = better & mask[:, :, None] & mask[:, None, :]
    diff = scores[:, :, None] - scores[:, None, :]
    pair = F.softplus(-SIGMA * diff) * weight
    pair = torch.where(valid, pair, torch.zeros_like(pair))
    return pair.sum() / valid.sum().clamp_min(1)


def training_loss(model, x, rel, mask):
    return lambda_loss(model(x), rel, mask)


def sessions(n, gen):
    w = torch.randn(N_FEAT, generator=gen) / N_FEAT**0.5
    x = torch.randn(n, LIST, N_FEAT, generator=gen)
    util = x @ w + 0.3 * torch.sin(3 * x[..., 0]) + 0.3 * torch.randn(n, LIST, generator=gen)
    rel = torch.bucketize(util, torch.tensor([0.6, 1.2, 1.8, 2.4])).float()
    count = torch.randint(LIST // 2, LIST + 1, (n, 1), generator=gen)
    mask = torch.arange(LIST)[None, :] < count
    return x, rel * mask, mask


@torch.no_grad()
def ndcg(model, x, rel, mask, k=10):
    s = model(x).masked_fill(~mask, -1e9)
    top = s.topk(k, dim=1).indices
    disc = 1.0 / torch.log2(torch.arange(2, k + 2).float())
    got = ((2.0 ** rel.gather(1, top) - 1) * disc).sum(1)
    best = ((2.0 ** rel.topk(k, dim=1).values - 1) * disc).sum(1)
    return (got / best.clamp_min(1e-6)).mean().item()


def main():
    gen = torch.Generator().manual_seed(2)
    x, rel, mask = sessions(QUERIES * 5, gen)
    xv, rv, mv = x[-QUERIES:], rel[-QUERIES:], mask[-QUERIES:]
    model = Ranker()
    step_loss = torch.compile(training_loss)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    print(f"ndcg@10 before {ndcg(model, xv, rv, mv):.4f}")
    times = []
    for step in range(STEPS):
        b = slice((step % 4) * QUERIES, (step % 4 + 1) * QUERIES)
        t0 = time.perf_counter()
        loss = step_loss(model, x[b], rel[b], mask[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 5 == 4:
            print(f"step {step + 1:3d} loss {loss.item() * 1e3:.4f}e-3")
    print(f"ndcg@10 after {ndcg(model, xv, rv, mv):.4f}")
    print(f"{sorted(times)[STEPS // 2] * 1e3:.1f} ms per step")


if __name__ == "__main__":
    main()
