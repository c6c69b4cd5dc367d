"""GloVe on a synthetic co-occurrence table, Adagrad, shuffled minibatches."""

import numpy as np
import torch
import torch.nn as nn


class GloVe(nn.Module):
    def __init__(self, vocab, dim, x_max=100.0, alpha=0.75):
        super().__init__()
        self.w = nn.Embedding(vocab, dim)
        self.c = nn.Embedding(vocab, dim)
        self.wb = nn.Embedding(vocab, 1)
        self.cb = nn.Embedding(vocab, 1)
        self.x_max, self.alpha = x_max, alpha

    def forward(self, i, j, x):
        dot = (self.w(i) * self.c(j)).sum(1)
        pred = dot + self.wb(i).squeeze(1) + self.cb(j).squeeze(1)
        weight = torch.clamp(x / self.x_max, max=1.0) ** self.alpha
        return (weight * (pred - torch.log(x)) ** 2).mean()


rng = np.random.default_rng(0)
vocab, pairs = 8000, 200_000
i = torch.from_numpy(rng.zipf(1.3, pairs) % vocab)
j = torch.from_numpy(rng.zipf(1.3, pairs) % vocab)
x = torch.from_numpy(rng.exponential(20, pairs) + 1)

torch.manual_seed(0)
model = torch.compile(GloVe(vocab, 64))
opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
for epoch in range(2):
    order = torch.randperm(pairs)
    total = 0.0
    for k in range(0, 20 * 8192, 8192):
        at = order[k : k + 8192]
        loss = model(i[at], j[at], x[at])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, total / 20)
