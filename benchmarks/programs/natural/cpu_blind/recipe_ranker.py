"""Ranking model for a recipe site: who cooks what next (wide & deep, BPR loss).

Synthetic click log with a hidden taste space.  Training step: compiled loss,
plain Adam.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, RECIPES, CUISINES, HOURS = 60_000, 120_000, 80, 24
DIM = 32
BATCH = 2048
STEPS = 350


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.recipe = nn.Embedding(RECIPES, DIM)
        self.cuisine = nn.Embedding(CUISINES, 8)
        self.hour = nn.Embedding(HOURS, 8)
        self.bias = nn.Embedding(RECIPES, 1)
        for e in (self.user, self.recipe, self.cuisine, self.hour):
            nn.init.normal_(e.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)
        self.deep = nn.Sequential(
            nn.Linear(3 * DIM + 16 + 4, 128),
            nn.LayerNorm(128),
            nn.GELU(),
            nn.Linear(128, 64),
            nn.LayerNorm(64),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Linear(64, 1),
        )

    def forward(self, user, recipe, cuisine, hour, dense):
        u, r = self.user(user), self.recipe(recipe)
        x = torch.cat([u, r, u * r, self.cuisine(cuisine), self.hour(hour), dense], dim=-1)
        return (u * r).sum(-1) + self.bias(recipe).squeeze(-1) + self.deep(x).squeeze(-1)


def bpr_loss(model, user, pos, neg, cuisine_of, hour, dense_of):
    s_pos = model(user, pos, cuisine_of[pos], hour, dense_of[pos])
    s_neg = model(user, neg, cuisine_of[neg], hour, dense_of[neg])
    margin = s_pos - s_neg
    return F.softplus(-margin).mean() + 1e-4 * (s_pos**2 + s_neg**2).mean()


class ClickLog:
    """Users prefer recipes whose hidden taste vector agrees with theirs."""

    def __init__(self, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.taste_u = torch.randn(USERS, 6, generator=self.g)
        self.cuisine_of = torch.randint(0, CUISINES, (RECIPES,), generator=self.g)
        centre = torch.randn(CUISINES, 6, generator=self.g)
        self.taste_r = centre[self.cuisine_of] + 0.5 * torch.randn(RECIPES, 6, generator=self.g)
        # minutes, calories, price, popularity (standardised)
        self.dense_of = torch.randn(RECIPES, 4, generator=self.g)

    def batch(self, n):
        user = torch.randint(0, USERS, (n,), generator=self.g)
        cand = torch.randint(0, RECIPES, (n, 8), generator=self.g)
        score = (self.taste_u[user][:, None] * self.taste_r[cand]).sum(-1)
        score = score + self.dense_of[cand][..., 3]
        pick = torch.multinomial(torch.softmax(score, 1), 1, generator=self.g)
        other = (pick + 1 + torch.randint(0, 7, (n, 1), generator=self.g)) % 8
        hour = torch.randint(0, HOURS, (n,), generator=self.g)
        return user, cand.gather(1, pick)[:, 0], cand.gather(1, other)[:, 0], hour


@torch.no_grad()
def pairwise_accuracy(model, log, n=8192):
    model.eval()
    user, pos, neg, hour = log.batch(n)
    a = model(user, pos, log.cuisine_of[pos], hour, log.dense_of[pos])
    b = model(user, neg, log.cuisine_of[neg], hour, log.dense_of[neg])
    model.train()
    return float((a > b).float().mean())


def main():
    torch.manual_seed(0)
    log = ClickLog()
    model = Ranker()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_fn = torch.compile(bpr_loss)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    running = 0.0
    for step in range(1, STEPS + 1):
        user, pos, neg, hour = log.batch(BATCH)
        opt.zero_grad()
        loss = loss_fn(model, user, pos, neg, log.cuisine_of, hour, log.dense_of)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        running += loss.item()
        if step % 70 == 0:
            acc = pairwise_accuracy(model, log)
            print(f"step {step:4d}  loss {running / 70:.4f}  pairwise accuracy {acc:.3f}")
            running = 0.0


if __name__ == "__main__":
    main()
