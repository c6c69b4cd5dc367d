"""SASRec: causal self-attention over item histories, next item over the whole catalogue."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, dropout=0.2, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Dropout(0.2), nn.Linear(d, d))

    def forward(self, x, causal):
        q = self.n1(x)
        x = x + self.attn(q, x, x, attn_mask=causal, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class SASRec(nn.Module):
    def __init__(self, items=3000, d=64, length=50):
        super().__init__()
        self.item = nn.Embedding(items + 1, d, padding_idx=0)
        self.pos = nn.Embedding(length, d)
        self.blocks = nn.ModuleList(Block(d, 2) for _ in range(2))
        self.norm = nn.LayerNorm(d)

    def forward(self, seq):
        n = seq.shape[1]
        x = self.item(seq) * self.item.embedding_dim**0.5 + self.pos(torch.arange(n, device=seq.device))
        x = F.dropout(x, 0.2, self.training)
        keep = (seq != 0).unsqueeze(-1)
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool, device=seq.device), 1)
        for block in self.blocks:
            x = block(x * keep, causal)
        return self.norm(x) @ self.item.weight.T


torch.manual_seed(0)
model = SASRec()
model = torch.compile(model)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
for step in range(20):
    seq = torch.randint(1, 3001, (32, 51))
    seq[:8, :20] = 0
    logits = model(seq[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten(), ignore_index=0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
