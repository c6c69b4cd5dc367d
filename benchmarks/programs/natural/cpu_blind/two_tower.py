"""Two-tower retrieval with in-batch sampled softmax and logQ correction."""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
rng = np.random.default_rng(5)

N_USERS, N_ITEMS, DIM, HIST, BATCH = 60_000, 120_000, 48, 20, 512


def zipf_items(shape):
    u = rng.random(shape)
    return (np.power(N_ITEMS, u) - 1).astype(np.int64)


def make_log(n):
    users = rng.integers(0, N_USERS, n)
    hist = zipf_items((n, HIST))
    lens = rng.integers(3, HIST + 1, n)
    target = (hist[:, 0] * 7 + users % 11) % N_ITEMS
    return (torch.from_numpy(users), torch.from_numpy(hist), torch.from_numpy(lens), torch.from_numpy(target))


class Tower(nn.Module):
    def __init__(self, din, dout=64, hidden=160):
        super().__init__()
        self.fc1 = nn.Linear(din, hidden)
        self.ln = nn.LayerNorm(hidden)
        self.fc2 = nn.Linear(hidden, dout)

    def forward(self, x):
        return F.normalize(self.fc2(F.gelu(self.ln(self.fc1(x)))), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user_emb = nn.Embedding(N_USERS, DIM)
        self.item_emb = nn.Embedding(N_ITEMS, DIM)
        nn.init.normal_(self.user_emb.weight, std=0.05)
        nn.init.normal_(self.item_emb.weight, std=0.05)
        self.attn = nn.Linear(DIM, 1)
        self.user_tower = Tower(2 * DIM)
        self.item_tower = Tower(DIM)
        self.log_temp = nn.Parameter(torch.tensor(2.5))

    def embed_users(self, users, hist, lens):
        h = self.item_emb(hist)
        score = self.attn(torch.tanh(h)).squeeze(-1)
        pad = torch.arange(HIST)[None] >= lens[:, None]
        w = torch.softmax(score.masked_fill(pad, float("-inf")), dim=1)
        pooled = (w.unsqueeze(-1) * h).sum(1)
        return self.user_tower(torch.cat((self.user_emb(users), pooled), -1))

    def embed_items(self, items):
        return self.item_tower(self.item_emb(items))

    def forward(self, users, hist, lens, target, logq):
        u = self.embed_users(users, hist, lens)
        v = self.embed_items(target)
        logits = self.log_temp.exp() * (u @ v.t()) - logq[None]
        same = (target[:, None] == target[None]) & ~torch.eye(BATCH, dtype=torch.bool)
        logits = logits.masked_fill(same, -1e4)
        return F.cross_entropy(logits, torch.arange(BATCH)), logits


def main():
    steps, warm = 34, 4
    users, hist, lens, target = make_log(BATCH * steps)
    counts = torch.bincount(target, minlength=N_ITEMS).float()
    logq_all = torch.log((counts + 1) / (counts.sum() + N_ITEMS))

    model = TwoTower()
    step_model = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    times, losses = [], []
    for i in range(steps):
        sl = slice(i * BATCH, (i + 1) * BATCH)
        t0 = time.perf_counter()
        tgt = target[sl]
        loss, logits = step_model(users[sl], hist[sl], lens[sl], tgt, logq_all[tgt])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.item())
        if i >= warm:
            times.append(time.perf_counter() - t0)
    acc = (logits.argmax(1) == torch.arange(BATCH)).float().mean().item()
    print(
        f"{1e3 * float(np.median(times)):.2f} ms/step  loss {losses[0]:.4f} -> {losses[-1]:.4f}"
        f"  in-batch acc {acc:.3f}"
    )


if __name__ == "__main__":
    main()
