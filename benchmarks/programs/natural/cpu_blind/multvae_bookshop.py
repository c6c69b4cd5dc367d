"""Mult-VAE (Liang et al. 2018) for an online second-hand bookshop: implicit baskets, NDCG@50 on held-out items."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS, N_ITEMS, N_GENRES = 3000, 6000, 24
BATCH = 200
EPOCHS = 6
ANNEAL_CAP, ANNEAL_STEPS = 0.2, 80


def synth_interactions(seed=0):
    g = torch.Generator().manual_seed(seed)
    genre_of_item = torch.randint(0, N_GENRES, (N_ITEMS,), generator=g)
    popularity = torch.rand(N_ITEMS, generator=g).pow(3) + 0.02
    taste = torch.distributions.Dirichlet(torch.full((N_GENRES,), 0.15))
    torch.manual_seed(seed)
    user_taste = taste.sample((N_USERS,))
    weights = user_taste[:, genre_of_item] * popularity
    picks = torch.multinomial(weights + 1e-7, 60, generator=g)
    return picks[:, :45], picks[:, 45:]  # input part, held-out part


class MultVAE(nn.Module):
    def __init__(self, n_items, hidden=300, latent=96, dropout=0.5):
        super().__init__()
        self.enc1 = nn.Linear(n_items, hidden)
        self.enc2 = nn.Linear(hidden, 2 * latent)
        self.dec1 = nn.Linear(latent, hidden)
        self.dec2 = nn.Linear(hidden, n_items)
        self.drop = nn.Dropout(dropout)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.normal_(m.bias, std=0.001)

    def encode(self, x):
        h = self.drop(F.normalize(x, p=2, dim=1))
        mu, logvar = self.enc2(torch.tanh(self.enc1(h))).chunk(2, dim=1)
        return mu, logvar

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        return self.dec2(torch.tanh(self.dec1(z))), mu, logvar


def elbo(model, x, anneal):
    logits, mu, logvar = model(x)
    nll = -(F.log_softmax(logits, dim=1) * x).sum(dim=1).mean()
    kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
    return nll + anneal * kld, nll, kld


def to_multi_hot(items):
    x = torch.zeros(items.shape[0], N_ITEMS)
    return x.scatter_(1, items, 1.0)


@torch.no_grad()
def ndcg_at_k(model, seen, held, k=50):
    model.eval()
    total, n = 0.0, 0
    discounts = 1 / torch.log2(torch.arange(2, k + 2).float())
    ideal = discounts[: min(k, held.shape[1])].sum()
    for i in range(0, len(seen), 500):
        x = to_multi_hot(seen[i : i + 500])
        logits, _, _ = model(x)
        logits[x > 0] = -math.inf
        top = logits.topk(k, dim=1).indices
        rel = to_multi_hot(held[i : i + 500]).gather(1, top)
        total += float((rel * discounts).sum() / ideal)
        n += len(x)
    model.train()
    return total / n


def main():
    torch.manual_seed(1)
    seen, held = synth_interactions()
    train_users = seen[:2500]
    model = MultVAE(N_ITEMS)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = torch.compile(elbo)
    step = 0
    for epoch in range(EPOCHS):
        order = torch.randperm(len(train_users))
        running = 0.0
        for i in range(0, len(order), BATCH):
            x = to_multi_hot(train_users[order[i : i + BATCH]])
            anneal = min(ANNEAL_CAP, step / ANNEAL_STEPS)
            loss, nll, kld = loss_fn(model, x, anneal)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            running += nll.item() * len(x)
            step += 1
        print(f"epoch {epoch}  nll {running / len(order):.2f}  kl {kld.item():.3f}  anneal {anneal:.3f}")
    print(f"NDCG@50 on unseen users {ndcg_at_k(model, seen[2500:], held[2500:]):.4f}")


if __name__ == "__main__":
    main()
