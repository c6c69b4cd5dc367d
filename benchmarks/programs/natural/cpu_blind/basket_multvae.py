"""Mult-VAE style next-purchase model on grocery baskets (implicit feedback)."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

N_ITEMS = 2500
PAD = N_ITEMS
MAX_LEN = 40


class BasketVAE(nn.Module):
    def __init__(self, dim=96, latent=48, total_anneal_steps=2000, anneal_cap=0.2):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS + 1, dim, padding_idx=PAD)
        self.enc = nn.Linear(dim, 2 * latent)
        self.dec = nn.Linear(latent, dim)
        self.bias = nn.Parameter(torch.zeros(N_ITEMS))
        self.drop = nn.Dropout(0.3)
        self.total_anneal_steps = total_anneal_steps
        self.anneal_cap = anneal_cap
        self.update_count = 0

    def encode(self, baskets):
        emb = self.item(baskets)
        n = (baskets != PAD).sum(1, keepdim=True).clamp(min=1)
        h = self.drop(emb.sum(1) / n.sqrt())
        return self.enc(torch.tanh(h)).chunk(2, dim=-1)

    def decode(self, z):
        return torch.tanh(self.dec(z)) @ self.item.weight[:N_ITEMS].t() + self.bias

    def forward(self, baskets):
        mu, logvar = self.encode(baskets)
        if self.training:
            self.update_count += 1
            z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        else:
            z = mu
        return self.decode(z), mu, logvar

    def loss(self, baskets, target):
        logits, mu, logvar = self(baskets)
        nll = -(F.log_softmax(logits, -1) * target).sum(-1).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
        beta = min(self.anneal_cap, self.update_count / self.total_anneal_steps)
        return nll + beta * kl


def synth_baskets(n, gen):
    """Shoppers mix a few aisles; popularity inside an aisle is roughly Zipf."""
    aisles = 50
    per = N_ITEMS // aisles
    pop = 1.0 / torch.arange(1, per + 1).float()
    pick = torch.randint(0, aisles, (n, 4), generator=gen)
    which = pick.gather(1, torch.randint(0, 4, (n, MAX_LEN), generator=gen))
    inside = torch.multinomial(pop, n * MAX_LEN, replacement=True, generator=gen).view(n, MAX_LEN)
    items = which * per + inside
    size = torch.randint(8, MAX_LEN + 1, (n, 1), generator=gen)
    return torch.where(torch.arange(MAX_LEN)[None] < size, items, torch.full_like(items, PAD))


def multi_hot(b):
    t = torch.zeros(b.shape[0], N_ITEMS + 1)
    t.scatter_(1, b, 1.0)
    return t[:, :N_ITEMS]


@torch.no_grad()
def recall_at(model, baskets, k=20):
    """Hide the last quarter of each basket and try to find it again."""
    n = (baskets != PAD).sum(1, keepdim=True)
    pos = torch.arange(MAX_LEN)[None]
    seen = torch.where(pos < (3 * n) // 4, baskets, torch.full_like(baskets, PAD))
    want = multi_hot(torch.where(pos >= (3 * n) // 4, baskets, torch.full_like(baskets, PAD)))
    logits = model(seen)[0] - 1e4 * multi_hot(seen)
    top = logits.topk(k, dim=1).indices
    return (want.gather(1, top).sum(1) / want.sum(1).clamp(min=1)).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--warmup", type=int, default=12)
    ap.add_argument("--batch", type=int, default=128)
    args = ap.parse_args()

    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(5)
    train, test = synth_baskets(8192, gen), synth_baskets(512, gen)

    model = BasketVAE()
    nn.init.normal_(model.item.weight, std=0.05)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_fn = torch.compile(model.loss)

    first = last = start = None
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            start = time.perf_counter()
        b = train[torch.randint(0, len(train), (args.batch,))]
        loss = loss_fn(b, multi_hot(b))
        opt.zero_grad()
        loss.backward()
        opt.step()
        last = loss.item()
        first = first if first is not None else last
    took = (time.perf_counter() - start) / args.steps

    model.eval()
    print(f"loss {first:.2f} -> {last:.2f}, recall@20 {recall_at(model, test):.3f}")
    print(f"{took * 1e3:.2f} ms/step")


if __name__ == "__main__":
    main()
