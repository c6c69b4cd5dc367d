"""LambdaLoss (NDCG-Loss2++) training of a product-search ranker with item
embeddings, dense features and a small cross-list scorer."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

QUERIES = max(8, int(768 * SCALE))
LIST_LEN = 200 if SCALE >= 0.5 else 40
N_ITEMS = max(2000, int(2_000_000 * SCALE))
N_BRANDS = max(100, int(40_000 * SCALE))
EMBED = 48
DENSE = 136
WARMUP_STEPS = 12
TOTAL_STEPS = 60 if SCALE >= 0.5 else 20


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS, EMBED)
        self.brand = nn.Embedding(N_BRANDS, EMBED)
        nn.init.normal_(self.item.weight, std=0.02)
        nn.init.normal_(self.brand.weight, std=0.02)
        self.norm = nn.LayerNorm(DENSE)
        self.mlp = nn.Sequential(
            nn.Linear(DENSE + 2 * EMBED, 256),
            nn.SiLU(),
            nn.Linear(256, 128),
            nn.SiLU(),
        )
        self.context = nn.Linear(128, 128)
        self.out = nn.Linear(256, 1)

    def forward(self, dense, item, brand, valid):
        dense = torch.log1p(dense.abs()) * dense.sign()
        x = torch.cat([self.norm(dense), self.item(item), self.brand(brand)], -1)
        x = self.mlp(x)
        weight = valid.unsqueeze(-1).to(x.dtype)
        pooled = (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        ctx = F.silu(self.context(pooled)).expand_as(x)
        return self.out(torch.cat([x, ctx], -1)).squeeze(-1)


def lambda_loss(scores, labels, valid, k=50, sigma=1.0, mu=10.0):
    """NDCG-Loss2++ (Wang et al., 2018)."""
    scores = scores.masked_fill(~valid, -1e4)
    labels = labels.masked_fill(~valid, -1.0)
    s, order = scores.sort(dim=-1, descending=True)
    rel = labels.gather(1, order)
    ok = valid.gather(1, order)

    n = scores.shape[1]
    position = torch.arange(1, n + 1, device=scores.device, dtype=scores.dtype)
    discount = 1.0 / torch.log2(position + 1.0)
    gain = torch.where(ok, torch.exp2(rel) - 1.0, torch.zeros_like(rel))
    ideal = gain.sort(dim=-1, descending=True).values
    max_dcg = (ideal * discount)[:, :k].sum(-1, keepdim=True).clamp_min(1e-6)
    g = gain / max_dcg

    gap = (position[:, None] - position[None, :]).abs()
    inv = 1.0 / torch.log2(gap + 1.0).clamp_min(1e-6)
    inv_next = 1.0 / torch.log2(gap + 2.0)
    delta = (inv - inv_next).abs()
    delta = delta - torch.diag_embed(delta.diagonal())
    rho = (1.0 / discount[:, None] - 1.0 / discount[None, :]).abs() / (n + 1.0)

    pair = (rel[:, :, None] > rel[:, None, :]) & ok[:, :, None] & ok[:, None, :]
    head = torch.minimum(position[:, None], position[None, :]) <= k
    weight = (rho + mu * delta) * (g[:, :, None] - g[:, None, :]).abs()
    diff = (s[:, :, None] - s[:, None, :]).clamp(-1e3, 1e3)
    prob = torch.sigmoid(sigma * diff).clamp_min(1e-8)
    losses = torch.log2(prob ** weight.detach()).clamp_min(-50.0)
    keep = pair & head
    loss = -(losses * keep).sum() / keep.sum().clamp_min(1)

    with torch.no_grad():
        ndcg = ((g * discount)[:, :k].sum(-1)).mean()
    return loss, ndcg


def make_batch(gen):
    shape = (QUERIES, LIST_LEN)
    dense = torch.randn(*shape, DENSE, generator=gen, device=DEVICE) * 3
    item = torch.rand(shape, generator=gen, device=DEVICE).pow(2.5)
    item = (item * N_ITEMS).long().clamp_max(N_ITEMS - 1)
    brand = (item * 7919) % N_BRANDS
    signal = dense[..., :8].mean(-1) + 0.4 * torch.randn(shape, generator=gen, device=DEVICE)
    labels = torch.bucketize(signal, torch.tensor([0.5, 1.2, 1.8, 2.5], device=DEVICE)).float()
    length = torch.randint(LIST_LEN // 3, LIST_LEN + 1, (QUERIES, 1), generator=gen, device=DEVICE)
    valid = torch.arange(LIST_LEN, device=DEVICE)[None] < length
    return dense, item, brand, labels, valid


def main():
    torch.manual_seed(0)
    gen = torch.Generator(device=DEVICE).manual_seed(1)
    batches = [make_batch(gen) for _ in range(6)]
    model = Ranker().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-5)

    def schedule(step):
        if step < WARMUP_STEPS:
            return (step + 1) / WARMUP_STEPS
        done = (step - WARMUP_STEPS) / (TOTAL_STEPS - WARMUP_STEPS)
        return 0.05 + 0.475 * (1 + math.cos(math.pi * min(1.0, done)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)

    @torch.compile
    def forward_loss(dense, item, brand, labels, valid):
        return lambda_loss(model(dense, item, brand, valid), labels, valid)

    @torch.compile
    def optimizer_step():
        optimizer.step()

    def train_step(i):
        loss, ndcg = forward_loss(*batches[i % len(batches)])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer_step()
        scheduler.step()
        return loss.detach(), ndcg

    warm = 15 if SCALE >= 0.5 else 3
    for i in range(warm):
        loss, ndcg = train_step(i)
    print(f"step {warm}: loss {float(loss):.4f}  ndcg@50 {float(ndcg):.4f}")

    begin = time.perf_counter()
    for i in range(warm, TOTAL_STEPS):
        loss, ndcg = train_step(i)
    final = float(loss)
    took = time.perf_counter() - begin
    print(f"step {TOTAL_STEPS}: loss {final:.4f}  ndcg@50 {float(ndcg):.4f}")
    print(f"{1e3 * took / (TOTAL_STEPS - warm):.2f} ms/step, lr {scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
