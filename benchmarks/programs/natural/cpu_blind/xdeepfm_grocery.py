"""xDeepFM for a grocery shop's 'will this be put in the basket' model, trained on clicked shelf impressions."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FIELDS = [60000, 25000, 8000, 4000, 2000, 900, 500, 300, 168, 100, 60, 50, 31, 24, 12, 7, 5, 3]
EMB, BATCH, STEPS = 12, 1024, 48


class CIN(nn.Module):
    """Compressed interaction network."""

    def __init__(self, fields, sizes=(48, 48, 32)):
        super().__init__()
        self.convs = nn.ModuleList()
        prev = fields
        for size in sizes:
            self.convs.append(nn.Conv1d(prev * fields, size, 1))
            prev = size // 2
        self.split = [s // 2 for s in sizes]
        self.out = nn.Linear(sum(self.split[:-1]) + sizes[-1], 1)

    def forward(self, x0):
        h, pooled = x0, []
        for i, conv in enumerate(self.convs):
            outer = h.unsqueeze(2) * x0.unsqueeze(1)
            z = F.relu(conv(outer.flatten(1, 2)))
            if i < len(self.convs) - 1:
                h, z = torch.split(z, self.split[i], dim=1)
            pooled.append(z.sum(-1))
        return self.out(torch.cat(pooled, 1)).squeeze(1)


class XDeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        offsets = torch.tensor([0] + FIELDS[:-1]).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.emb = nn.Embedding(sum(FIELDS), EMB)
        self.lin = nn.Embedding(sum(FIELDS), 1)
        nn.init.normal_(self.emb.weight, std=0.05)
        nn.init.zeros_(self.lin.weight)
        self.cin = CIN(len(FIELDS))
        self.mlp = nn.Sequential(
            nn.Linear(len(FIELDS) * EMB, 256),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(256, 128),
            nn.BatchNorm1d(128),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(128, 1),
        )

    def forward(self, x):
        idx = x + self.offsets
        e = self.emb(idx)
        return self.lin(idx).sum((1, 2)) + self.cin(e) + self.mlp(e.flatten(1)).squeeze(1)


def focal_bce(logit, y, gamma=1.0, smooth=0.02):
    t = y * (1 - smooth) + 0.5 * smooth
    p = torch.sigmoid(logit)
    w = (t * (1 - p) + (1 - t) * p).pow(gamma)
    return (w * F.binary_cross_entropy_with_logits(logit, t, reduction="none")).mean()


def make_batch(gen, taste):
    cols = []
    for n in FIELDS:
        u = torch.rand(BATCH, generator=gen)
        cols.append((u.pow(3) * n).long().clamp(max=n - 1))  # popular items first
    x = torch.stack(cols, 1)
    score = taste[x % 64, torch.arange(len(FIELDS))].sum(1)
    y = (torch.rand(BATCH, generator=gen) < torch.sigmoid(score - 1)).float()
    return x, y


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = y.sum()
    return ((rank[y > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(5)
    taste = 0.6 * torch.randn(64, len(FIELDS), generator=gen)
    model = XDeepFM()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)

    @torch.compile
    def forward_loss(x, y):
        logit = model(x)
        return focal_bce(logit, y), logit

    running = 0.0
    for step in range(1, STEPS + 1):
        x, y = make_batch(gen, taste)
        opt.zero_grad()
        loss, _ = forward_loss(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        running += loss.item()
        if step % 16 == 0:
            print(f"step {step}: loss {running / 16:.4f}")
            running = 0.0

    model.eval()
    scores, labels = [], []
    with torch.no_grad():
        for _ in range(8):
            x, y = make_batch(gen, taste)
            scores.append(forward_loss(x, y)[1])
            labels.append(y)
    print(f"held-out AUC {auc(torch.cat(scores), torch.cat(labels)):.4f}")


if __name__ == "__main__":
    main()
