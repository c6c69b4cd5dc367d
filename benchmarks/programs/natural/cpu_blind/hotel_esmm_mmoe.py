"""Entire-space multi-task ranker (click, then booking) with gated experts for hotel search results."""

import torch
from torch import nn

torch.set_num_threads(2)

FIELDS = {"user": 50_000, "hotel": 20_000, "city": 800, "device": 6, "month": 12, "chain": 150, "stars": 6}
EMB = 16
DENSE = 8


class HotelLog:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.affinity = {k: 0.7 * torch.randn(v, generator=self.gen) for k, v in FIELDS.items()}

    def batch(self, n):
        ids = {}
        for name, size in FIELDS.items():
            u = torch.rand(n, generator=self.gen)
            ids[name] = (u.pow(2.5) * size).long()
        dense = torch.randn(n, DENSE, generator=self.gen)
        pull = sum(self.affinity[k][ids[k]] for k in ("user", "hotel", "stars"))
        click_p = torch.sigmoid(pull - dense[:, 0] - 1.5)
        book_p = torch.sigmoid(self.affinity["chain"][ids["chain"]] + dense[:, 1] * dense[:, 2] - 1.0)
        click = (torch.rand(n, generator=self.gen) < click_p).float()
        book = click * (torch.rand(n, generator=self.gen) < book_p).float()
        return ids, dense, click, book


class Expert(nn.Sequential):
    def __init__(self, width, hidden, out):
        super().__init__(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out), nn.ReLU())


class Tower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 64), nn.BatchNorm1d(64), nn.PReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


class HotelRanker(nn.Module):
    def __init__(self, experts=6, out=96):
        super().__init__()
        self.embed = nn.ModuleDict({k: nn.Embedding(v, EMB) for k, v in FIELDS.items()})
        for table in self.embed.values():
            nn.init.normal_(table.weight, std=0.05)
        self.dense_norm = nn.BatchNorm1d(DENSE)
        width = EMB * len(FIELDS) + DENSE
        self.experts = nn.ModuleList(Expert(width, 128, out) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(2))
        self.towers = nn.ModuleList(Tower(out) for _ in range(2))

    def forward(self, ids, dense):
        parts = [self.embed[name](ids[name]) for name in FIELDS]
        x = torch.cat(parts + [self.dense_norm(dense)], dim=1)
        views = torch.stack([e(x) for e in self.experts], dim=1)
        logits = []
        for gate, tower in zip(self.gates, self.towers):
            weight = gate(x).softmax(dim=1).unsqueeze(-1)
            logits.append(tower((weight * views).sum(1)))
        return logits[0], logits[1]


def esmm_loss(ctr_logit, cvr_logit, click, book):
    p_click = torch.sigmoid(ctr_logit)
    p_both = p_click * torch.sigmoid(cvr_logit)
    eps = 1e-6
    ctr = -(click * (p_click + eps).log() + (1 - click) * (1 - p_click + eps).log()).mean()
    ctcvr = -(book * (p_both + eps).log() + (1 - book) * (1 - p_both + eps).log()).mean()
    return ctr + ctcvr


def build_step(model, opt):
    @torch.compile
    def train_step(ids, dense, click, book):
        opt.zero_grad()
        ctr_logit, cvr_logit = model(ids, dense)
        loss = esmm_loss(ctr_logit, cvr_logit, click, book)
        loss.backward()
        opt.step()
        return loss.detach()

    return train_step


def roc(score, y):
    rank = score.argsort().argsort().double() + 1
    pos = y.sum().double()
    return ((rank[y > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def main():
    torch.manual_seed(29)
    log = HotelLog(29)
    model = HotelRanker()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    step = build_step(model, opt)
    losses = []
    for i in range(160):
        losses.append(step(*log.batch(2048)))
        if i % 40 == 39:
            print(f"step {i + 1}: loss {torch.stack(losses[-40:]).mean().item():.4f}")
    model.eval()
    with torch.no_grad():
        ids, dense, click, book = log.batch(8192)
        a, b = model(ids, dense)
        print(f"click AUC {roc(a, click):.3f}  booking AUC {roc(a.sigmoid() * b.sigmoid(), book):.3f}")


if __name__ == "__main__":
    main()
