"""Ranking model for the search page of an online shop: MaskNet (parallel) with a NeuralSort-NDCG list loss.

Every query has a list of up to 24 shown products with graded feedback (0 nothing, 1 click, 2 cart, 3 order). Categorical
fields are embedded, MaskBlocks gate the hidden layer with an instance-guided mask, Dice activations are used in the
tower and a shallow position tower absorbs the position bias of the log. Trained with Adam, NDCG@8 on held-out queries.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2024)
LIST = 24
FIELDS = {
    "brand": 1500,
    "category": 320,
    "seller": 4000,
    "price_band": 40,
    "query_cluster": 800,
    "city": 120,
    "device": 4,
}
DENSE = 9
DIM = 12


class Dice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False, eps=1e-8)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        p = torch.sigmoid(self.bn(x.flatten(0, 1))).view_as(x)
        return x * (p + self.alpha * (1 - p))


class MaskBlock(nn.Module):
    """Instance-guided mask over the (normalised) feature embedding, then linear + LayerNorm + ReLU."""

    def __init__(self, width, out, reduction=2):
        super().__init__()
        self.mask = nn.Sequential(
            nn.Linear(width, width * reduction), nn.ReLU(), nn.Linear(width * reduction, width)
        )
        self.hidden = nn.Linear(width, out, bias=False)
        self.norm = nn.LayerNorm(out)

    def forward(self, emb, normed):
        return F.relu(self.norm(self.hidden(normed * self.mask(emb))))


class ShopRanker(nn.Module):
    def __init__(self, blocks=3, block_dim=48):
        super().__init__()
        self.tables = nn.ModuleDict({k: nn.Embedding(n, DIM) for k, n in FIELDS.items()})
        for t in self.tables.values():
            nn.init.normal_(t.weight, std=0.05)
        self.dense_norm = nn.BatchNorm1d(DENSE)
        self.dense_proj = nn.Linear(DENSE, DIM)
        width = DIM * (len(FIELDS) + 1)
        self.field_norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(len(FIELDS) + 1))
        self.blocks = nn.ModuleList(MaskBlock(width, block_dim) for _ in range(blocks))
        self.tower = nn.Sequential(
            nn.Linear(blocks * block_dim, 64),
            Dice(64),
            nn.Dropout(0.1),
            nn.Linear(64, 32),
            Dice(32),
            nn.Linear(32, 1),
        )
        self.position = nn.Sequential(nn.Embedding(LIST, 8), nn.Linear(8, 1))

    def forward(self, batch, with_position=True):
        dense = torch.log1p(batch["dense"])
        dense = self.dense_norm(dense.flatten(0, 1)).view_as(dense)
        fields = [self.tables[k](batch[k]) for k in FIELDS] + [self.dense_proj(dense)]
        emb = torch.cat(fields, -1)
        normed = torch.cat([n(f) for n, f in zip(self.field_norms, fields)], -1)
        h = torch.cat([b(emb, normed) for b in self.blocks], -1)
        score = self.tower(h).squeeze(-1)
        if with_position:
            score = score + self.position(torch.arange(score.shape[1])).squeeze(-1)
        return score.masked_fill(~batch["shown"], -30.0)


def neural_sort(scores, tau):
    n = scores.shape[1]
    pair = (scores[:, :, None] - scores[:, None, :]).abs().sum(2)
    scaling = n + 1 - 2 * (torch.arange(n) + 1.0)
    logits = scaling[None, :, None] * scores[:, None, :] - pair[:, None, :]
    return torch.softmax(logits / tau, -1)


def sinkhorn_scale(P, iters=6):
    for _ in range(iters):
        P = P / P.sum(1, keepdim=True).clamp(min=1e-8)
        P = P / P.sum(2, keepdim=True).clamp(min=1e-8)
    return P


def neural_ndcg(scores, grade, shown, tau=1.0):
    P = sinkhorn_scale(neural_sort(scores, tau))
    gain = (2.0**grade - 1) * shown
    discount = 1 / torch.log2(torch.arange(scores.shape[1]) + 2.0)
    dcg = ((P @ gain.unsqueeze(-1)).squeeze(-1) * discount).sum(1)
    ideal = (gain.sort(descending=True).values * discount).sum(1)
    keep = ideal > 0
    return 1 - (dcg / ideal.clamp(min=1e-6))[keep].mean()


def ndcg_at(scores, grade, k=8):
    gain = 2.0**grade - 1
    discount = 1 / torch.log2(torch.arange(k) + 2.0)
    got = (gain.gather(1, scores.topk(k).indices) * discount).sum(1)
    best = (gain.topk(k).values * discount).sum(1)
    return (got / best.clamp(min=1e-6))[best > 0].mean()


class SearchLog:
    def __init__(self):
        self.quality = {k: torch.randn(n) * 0.7 for k, n in FIELDS.items()}
        self.w = torch.randn(DENSE) * 0.3

    def batch(self, size, biased=True):
        b = {k: (n * torch.rand(size, LIST) ** 2).long() for k, n in FIELDS.items()}
        for k in ("query_cluster", "city", "device"):
            b[k] = b[k][:, :1].expand(-1, LIST).contiguous()
        b["dense"] = torch.distributions.Gamma(1.5, 0.3).sample((size, LIST, DENSE))
        length = torch.randint(8, LIST + 1, (size, 1))
        b["shown"] = torch.arange(LIST) < length
        u = sum(self.quality[k][b[k]] for k in ("brand", "category", "seller", "price_band"))
        u = u + torch.log1p(b["dense"]) @ self.w + 0.5 * torch.randn(size, LIST)
        if biased:
            u = u - 0.06 * torch.arange(LIST)
        b["grade"] = torch.bucketize(u, torch.tensor([1.0, 2.0, 3.0])) * b["shown"]
        return b


def main():
    log = SearchLog()
    model = ShopRanker()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    holdout = log.batch(1000, biased=False)

    @torch.compile
    def loss_fn(batch):
        scores = model(batch)
        listwise = neural_ndcg(scores, batch["grade"], batch["shown"])
        click = F.binary_cross_entropy_with_logits(scores, (batch["grade"] > 0).float(), reduction="none")
        return listwise + 0.5 * (click * batch["shown"]).sum() / batch["shown"].sum()

    losses = []
    for step in range(110):
        batch = log.batch(160)
        loss = loss_fn(batch)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        s = model(holdout, with_position=False)
    print(f"loss first 20 / last 20: {sum(losses[:20]) / 20:.4f} / {sum(losses[-20:]) / 20:.4f}")
    print(
        "NDCG@8 model {:.4f}  random {:.4f}".format(
            ndcg_at(s, holdout["grade"]), ndcg_at(torch.rand_like(s), holdout["grade"])
        )
    )
    pos = model.position(torch.arange(LIST)).squeeze(-1).detach()
    print(f"position effect first/last: {pos[0]:.3f} {pos[-1]:.3f}")


if __name__ == "__main__":
    main()
