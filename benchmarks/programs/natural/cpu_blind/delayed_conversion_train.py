"""Conversion model for display ads with delayed feedback (after Chapelle, 2014).

A click converts with probability p(x); if it does, the delay is exponential with rate lambda(x).  At training time many
clicks are too young to have converted, so an unconverted click of age e contributes log(1 - p + p exp(-lambda e)).
Categorical fields are hashed into one shared table; both heads are small MLPs over the field embeddings.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(2014)

FIELDS = ["campaign", "publisher", "slot", "device", "city", "hour", "creative", "segment"]
CARD = [1200, 3000, 40, 12, 2500, 24, 6000, 900]
BUCKETS = 2**18
DIM = 16
BATCH = 4096
N = 200_000


def make_log(n):
    g = torch.Generator().manual_seed(5)
    cols, score, speed = [], torch.zeros(n), torch.zeros(n)
    for card in CARD:
        v = (torch.rand(n, generator=g).pow(2.5) * card).long()
        cols.append(v)
        w = torch.randn(card, generator=g) * 0.55
        u = torch.randn(card, generator=g) * 0.25
        score += w[v]
        speed += u[v]
    dense = torch.randn(n, 4, generator=g)
    score += dense @ torch.tensor([0.4, -0.3, 0.2, 0.0]) - 2.2
    will = torch.rand(n, generator=g) < torch.sigmoid(score)
    rate = torch.exp(speed - 1.2)  # per day
    delay = -torch.log(torch.rand(n, generator=g).clamp(min=1e-6)) / rate
    age = torch.rand(n, generator=g) * 14.0
    seen = will & (delay < age)
    return torch.stack(cols, 1), dense, seen, torch.where(seen, delay, torch.zeros(())), age, will


def hash_fields(raw):
    salt = torch.arange(1, raw.shape[1] + 1) * 2_654_435_761
    return (raw * 40_503 + salt) % 1_000_003 % BUCKETS


class Tower(nn.Module):
    def __init__(self, d_in, hidden=(128, 64)):
        super().__init__()
        layers = []
        for h in hidden:
            layers += [nn.Linear(d_in, h), nn.BatchNorm1d(h), nn.PReLU(), nn.Dropout(0.1)]
            d_in = h
        layers.append(nn.Linear(d_in, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x).squeeze(-1)


class DelayedFeedback(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(BUCKETS, DIM)
        nn.init.normal_(self.table.weight, std=0.02)
        self.norm = nn.BatchNorm1d(4)
        width = len(FIELDS) * DIM + 4 + len(FIELDS) * (len(FIELDS) - 1) // 2
        self.convert = Tower(width)
        self.speed = Tower(width, (64,))
        self.register_buffer("pairs", torch.triu_indices(len(FIELDS), len(FIELDS), 1))

    def forward(self, raw, dense):
        e = self.table(hash_fields(raw))
        inter = torch.bmm(e, e.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        x = torch.cat([e.flatten(1), self.norm(dense), inter], dim=1)
        return self.convert(x), self.speed(x).clamp(-6, 4)


def delayed_nll(logit, log_rate, seen, delay, age):
    rate = log_rate.exp()
    log_p = F.logsigmoid(logit)
    converted = log_p + log_rate - rate * delay
    waiting = torch.logaddexp(F.logsigmoid(-logit), log_p - rate * age)
    return -torch.where(seen, converted, waiting).mean()


def auc(score, label):
    order = score.argsort()
    rank = torch.empty(len(score))
    rank[order] = torch.arange(1, len(score) + 1, dtype=torch.float32)
    pos = label.sum().float()
    neg = len(label) - pos
    return ((rank[label].double().sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main():
    raw, dense, seen, delay, age, will = make_log(N)
    n_train = int(N * 0.9)
    model = DelayedFeedback()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-6)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=130)
    compiled = torch.compile(model)

    model.train()
    running, losses = 0.0, []
    for epoch in range(3):
        perm = torch.randperm(n_train)
        for i in range(0, n_train - BATCH + 1, BATCH):
            idx = perm[i : i + BATCH]
            logit, log_rate = compiled(raw[idx], dense[idx])
            loss = delayed_nll(logit, log_rate, seen[idx], delay[idx], age[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            running = loss.item() if not losses else 0.95 * running + 0.05 * loss.item()
            losses.append(running)
        print(f"epoch {epoch}: running loss {running:.4f}")

    model.eval()
    with torch.no_grad():
        logit, log_rate = model(raw[n_train:], dense[n_train:])
    p = torch.sigmoid(logit)
    truth = will[n_train:]
    print(f"AUC against eventual conversion {auc(p, truth):.4f}")
    print(
        f"predicted rate {p.mean():.4f}  eventual {truth.float().mean():.4f}  "
        f"already seen {seen[n_train:].float().mean():.4f}"
    )
    print(f"median expected delay {torch.exp(-log_rate).median():.2f} days")


if __name__ == "__main__":
    main()
