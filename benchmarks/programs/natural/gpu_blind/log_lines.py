"""Train a hashed character n-gram classifier on server log lines.

Every line becomes a padded row of n-gram bucket ids; the model averages the
bucket vectors and predicts which service wrote the line.
"""

import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

BUCKETS = max(2000, int(200_000 * SCALE))
DIM = 64
MAX_NGRAMS = 512
BATCH = max(64, int(4096 * SCALE))
SERVICES = 40
STEPS = 50

rng = np.random.default_rng(11)
torch.manual_seed(11)
torch.set_float32_matmul_precision("high")


def sync():
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def load_batches(n):
    """Pre-tokenised lines: id 0 is padding, frequent n-grams have small ids."""
    batches = []
    for _ in range(n):
        label = rng.integers(0, SERVICES, BATCH)
        length = np.minimum(rng.lognormal(4.4, 0.6, BATCH).astype(np.int64) + 4, MAX_NGRAMS)
        ids = np.minimum(rng.zipf(1.25, (BATCH, MAX_NGRAMS)), 10**9) + label[:, None] * 7
        ids = 1 + ids % (BUCKETS - 1)
        ids[np.arange(MAX_NGRAMS)[None, :] >= length[:, None]] = 0
        batches.append((torch.from_numpy(ids).to(device), torch.from_numpy(label).to(device)))
    return batches


class LineClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(BUCKETS, DIM)
        self.importance = nn.Embedding(BUCKETS, 1)
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Sequential(nn.Linear(DIM, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, SERVICES))
        nn.init.normal_(self.table.weight, std=0.1)
        nn.init.zeros_(self.importance.weight)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1)
        gate = torch.sigmoid(self.importance(ids)) * mask
        vectors = self.table(ids)
        pooled = (vectors * gate).sum(1) / gate.sum(1).clamp_min(1.0)
        return self.head(self.norm(pooled))


def main():
    model = LineClassifier().to(device)
    compiled = torch.compile(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    batches = load_batches(4)
    pad = np.mean([(b[0] == 0).float().mean().item() for b in batches])
    print(f"{BATCH} lines per batch, {BUCKETS} buckets, padding share {pad:.2f}")
    times = []
    for step in range(STEPS):
        ids, label = batches[step % len(batches)]
        sync()
        t0 = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        logits = compiled(ids)
        loss = F.cross_entropy(logits, label, label_smoothing=0.05)
        loss.backward()
        opt.step()
        sync()
        times.append(time.perf_counter() - t0)
        if step % 10 == 0:
            acc = (logits.argmax(1) == label).float().mean().item()
            print(f"step {step:3d}  loss {loss.item():.4f}  acc {acc:.3f}")
    tail = times[len(times) // 2 :]
    print(f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms")


if __name__ == "__main__":
    main()
