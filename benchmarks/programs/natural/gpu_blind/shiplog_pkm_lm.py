"""Language model of ships' log entries with product-key memory layers.

A small GPT where some feed-forward layers are replaced with a large key-value memory (Lample et al. 2019): every token
queries sqrt(N) + sqrt(N) sub-keys, the best pairs are looked up and their values are summed.  The memory values have
their own learning rate.  The corpus is synthetic: entries drawn from a set of templates (weather, position, sightings)
with a Zipf vocabulary.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    VOCAB, DIM, LAYERS, HEADS, SEQ, BATCH, N_KEYS, KNN, MEM_HEADS, STEPS = (
        8192,
        768,
        8,
        12,
        512,
        16,
        256,
        32,
        4,
        120,
    )
else:
    VOCAB, DIM, LAYERS, HEADS, SEQ, BATCH, N_KEYS, KNN, MEM_HEADS, STEPS = 64, 32, 3, 2, 16, 2, 8, 4, 2, 16
MEMORY_AT = {1, 4, 6}


class ProductKeyMemory(nn.Module):
    def __init__(self, dim, n_keys, heads, knn, key_dim=256):
        super().__init__()
        self.heads, self.knn, self.n_keys, self.half = heads, knn, n_keys, key_dim // 2
        self.query = nn.Linear(dim, heads * key_dim)
        self.query_norm = nn.BatchNorm1d(heads * key_dim)
        self.keys = nn.Parameter(torch.randn(heads, 2, n_keys, self.half) / math.sqrt(self.half))
        self.values = nn.EmbeddingBag(n_keys**2, dim, mode="sum")
        nn.init.normal_(self.values.weight, std=dim**-0.5)

    def forward(self, x):
        b, t, d = x.shape
        q = self.query_norm(self.query(x.reshape(b * t, d)))
        q = q.view(b * t, self.heads, 2, self.half)
        scores = torch.einsum("nhpd,hpkd->nhpk", q, self.keys.to(q.dtype))
        top, index = scores.topk(self.knn, dim=-1)
        pair_scores = (top[:, :, 0, :, None] + top[:, :, 1, None, :]).flatten(2)
        pair_index = (index[:, :, 0, :, None] * self.n_keys + index[:, :, 1, None, :]).flatten(2)
        best, where = pair_scores.topk(self.knn, dim=-1)
        index = pair_index.gather(-1, where)
        weights = F.softmax(best.float(), dim=-1)
        out = self.values(index.view(b * t, -1), per_sample_weights=weights.view(b * t, -1))
        return out.view(b, t, d)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads, memory):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        if memory:
            self.ffn = ProductKeyMemory(dim, N_KEYS, MEM_HEADS, KNN)
        else:
            self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class LogLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, DIM)
        self.positions = nn.Embedding(SEQ, DIM)
        self.blocks = nn.ModuleList(Block(DIM, HEADS, i in MEMORY_AT) for i in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.float().view(-1, VOCAB), targets.reshape(-1), label_smoothing=0.05)


def make_corpus(n_tokens):
    ranks = torch.arange(1, VOCAB + 1, dtype=torch.float64)
    zipf = (1 / ranks**1.1).float()
    templates = torch.multinomial(zipf, 200 * 24, replacement=True).view(200, 24)
    pick = torch.randint(200, (n_tokens // 24 + 1,))
    text = templates[pick].flatten()[:n_tokens]
    noise = torch.multinomial(zipf, n_tokens, replacement=True)
    return torch.where(torch.rand(n_tokens) < 0.15, noise, text)


def get_batch(corpus):
    starts = torch.randint(len(corpus) - SEQ - 1, (BATCH,))
    rows = torch.stack([corpus[s : s + SEQ + 1] for s in starts]).to(device)
    return rows[:, :-1], rows[:, 1:]


def main():
    corpus = make_corpus(400_000 if device == "cuda" else 5_000)
    model = LogLM().to(device)
    memory = [p for n, p in model.named_parameters() if "values" in n]
    rest = [p for n, p in model.named_parameters() if "values" not in n]
    optimizer = torch.optim.AdamW(
        [
            {"params": rest, "lr": 3e-4, "weight_decay": 0.05},
            {"params": memory, "lr": 1e-3, "weight_decay": 0.0},
        ],
        betas=(0.9, 0.98),
    )
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 20))
    compiled = torch.compile(model)
    losses = []
    for step in range(STEPS):
        ids, targets = get_batch(corpus)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = compiled(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        warmup.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).cpu()
    print(
        f"parameters {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M, "
        f"in the memories {sum(p.numel() for p in memory) / 1e6:.1f}M"
    )
    print(
        f"loss first 5 {losses[:5].mean():.3f}, last 5 {losses[-5:].mean():.3f}, "
        f"perplexity {losses[-5:].mean().exp():.1f}"
    )


if __name__ == "__main__":
    main()
