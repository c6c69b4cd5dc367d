"""Click-through model for sponsored postings of a job board (AutoInt).

Every impression has 18 categorical fields (query, employer, title, region, user cluster, ...) and 5 numeric ones; each
becomes a token and multi-head self-attention layers learn the feature interactions. Trained with BCE on impressions in
order of time, the last day held out. AUC, log loss and calibration by position are reported.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(77)

CARD = [60000, 25000, 12000, 8000, 3000, 1500, 900, 400, 250, 120, 64, 48, 31, 24, 12, 8, 7, 3]
N_NUM = 5
DIM = 16
BATCH = 2048
TRAIN = 2048 * 90
TEST = 2048 * 8


def impressions(n, truth):
    """Long-tailed ids; the click logit has main effects and a few crossed ones."""
    cats = []
    for c in CARD:
        u = torch.rand(n)
        cats.append((c * u**3).long().clamp(max=c - 1))
    cats = torch.stack(cats, 1)
    num = torch.randn(n, N_NUM)
    num[:, 0] = torch.exp(num[:, 0])  # bid
    num[:, 1] = torch.exp(0.5 * num[:, 1])  # age of the posting
    logit = torch.full((n,), -2.2)
    for i, w in enumerate(truth["main"]):
        logit = logit + w[cats[:, i]]
    for (a, b), (u, v) in zip(truth["pairs"], truth["cross"]):
        logit = logit + (u[cats[:, a]] * v[cats[:, b]]).sum(1)
    logit = logit + 0.3 * torch.log1p(num[:, 0]) - 0.4 * torch.log1p(num[:, 1])
    click = (torch.rand(n) < torch.sigmoid(logit)).float()
    return cats, num, click


def make_truth():
    pairs = [(4, 6), (5, 9), (7, 10), (8, 14)]
    return dict(
        main=[0.25 * torch.randn(c) for c in CARD],
        pairs=pairs,
        cross=[(0.5 * torch.randn(CARD[a], 3), 0.5 * torch.randn(CARD[b], 3)) for a, b in pairs],
    )


class InteractingLayer(nn.Module):
    def __init__(self, d_in, d_att, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.d_head = d_att // heads
        self.q = nn.Linear(d_in, d_att, bias=False)
        self.k = nn.Linear(d_in, d_att, bias=False)
        self.v = nn.Linear(d_in, d_att, bias=False)
        self.res = nn.Linear(d_in, d_att, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        B, N, _ = x.shape
        q = self.q(x).view(B, N, self.heads, self.d_head).transpose(1, 2)
        k = self.k(x).view(B, N, self.heads, self.d_head).transpose(1, 2)
        v = self.v(x).view(B, N, self.heads, self.d_head).transpose(1, 2)
        score = torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(self.d_head)
        att = self.drop(torch.softmax(score, -1))
        out = torch.einsum("bhnm,bhmd->bhnd", att, v).transpose(1, 2).reshape(B, N, -1)
        return F.relu(out + self.res(x))


class AutoInt(nn.Module):
    def __init__(self, layers=2, d_att=32, heads=2):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(c, DIM) for c in CARD])
        self.linear = nn.ModuleList([nn.Embedding(c, 1) for c in CARD])
        for t in list(self.tables) + list(self.linear):
            nn.init.normal_(t.weight, std=0.01)
        self.num_emb = nn.Parameter(0.01 * torch.randn(N_NUM, DIM))
        self.num_bn = nn.BatchNorm1d(N_NUM)
        dims = [DIM] + [d_att] * layers
        self.attn = nn.ModuleList([InteractingLayer(a, d_att, heads) for a in dims[:-1]])
        n = len(CARD) + N_NUM
        self.head = nn.Linear(n * d_att, 1)
        self.deep = nn.Sequential(nn.Linear(n * DIM, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 1))

    def forward(self, cats, num):
        emb = torch.stack([t(cats[:, i]) for i, t in enumerate(self.tables)], 1)
        wide = torch.stack([t(cats[:, i]) for i, t in enumerate(self.linear)], 1).sum((1, 2))
        num = self.num_bn(torch.log1p(num.clamp(min=0)) + torch.clamp(num, max=0))
        x = torch.cat([emb, num[:, :, None] * self.num_emb], 1)
        h = x
        for layer in self.attn:
            h = layer(h)
        return self.head(h.flatten(1)).squeeze(1) + self.deep(x.flatten(1)).squeeze(1) + wide


def auc(score, y):
    rank = torch.empty_like(score)
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = y.sum()
    return ((rank[y > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


@torch.no_grad()
def evaluate(model, cats, num, y):
    model.eval()
    p = torch.cat(
        [torch.sigmoid(model(cats[i : i + BATCH], num[i : i + BATCH])) for i in range(0, len(y), BATCH)]
    )
    model.train()
    return p, auc(p.double(), y), F.binary_cross_entropy(p, y).item()


def main():
    truth = make_truth()
    cats, num, y = impressions(TRAIN, truth)
    tcats, tnum, ty = impressions(TEST, truth)
    model = AutoInt()
    fast = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-6)
    running = 0.0
    for step, i in enumerate(range(0, TRAIN, BATCH)):
        loss = F.binary_cross_entropy_with_logits(
            fast(cats[i : i + BATCH], num[i : i + BATCH]), y[i : i + BATCH]
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = loss.item() if step == 0 else 0.95 * running + 0.05 * loss.item()
        if step % 30 == 0:
            print(f"batch {step:4d}  loss {running:.4f}")
    p, a, ll = evaluate(fast, tcats, tnum, ty)
    print(f"click rate {ty.mean():.4f}, predicted {p.mean():.4f}, AUC {a:.4f}, log loss {ll:.4f}")
    for pos in range(CARD[16]):
        m = tcats[:, 16] == pos
        print(f"  position {pos}: observed {ty[m].mean():.3f} predicted {p[m].mean():.3f} n={int(m.sum())}")


if __name__ == "__main__":
    main()
