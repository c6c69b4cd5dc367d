"""Click-through-rate model with multi-hot features, trained with Adagrad."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

BATCH = int(8192 * SCALE)
ROWS = int(150_000 * SCALE)
FIELDS = 16
BAG = 12
DIM = 32
DENSE = 13


class ClickModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(ROWS, DIM, mode="mean") for _ in range(FIELDS)])
        self.bottom = nn.Sequential(nn.Linear(DENSE, 128), nn.ReLU(), nn.Linear(128, DIM), nn.ReLU())
        pairs = (FIELDS + 1) * FIELDS // 2
        self.top = nn.Sequential(
            nn.Linear(DIM + pairs, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 1),
        )
        li, lj = torch.tril_indices(FIELDS + 1, FIELDS + 1, offset=-1)
        self.register_buffer("li", li)
        self.register_buffer("lj", lj)

    def forward(self, dense, ids, offsets):
        d = self.bottom(torch.log1p(dense))
        embs = [t(ids[i], offsets) for i, t in enumerate(self.tables)]
        stack = torch.stack([d] + embs, dim=1)
        inter = torch.bmm(stack, stack.transpose(1, 2))
        inter = inter[:, self.li, self.lj]
        return self.top(torch.cat([d, inter], dim=1)).squeeze(1)


def make_batch(gen):
    dense = torch.rand(BATCH, DENSE, generator=gen) * 50
    # skewed popularity: a few ids are very common
    u = torch.rand(FIELDS, BATCH * BAG, generator=gen)
    ids = (ROWS * u**4).long().clamp(max=ROWS - 1)
    label = (torch.rand(BATCH, generator=gen) < 0.25).float()
    return dense.to(device), ids.to(device), label.to(device)


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    model = ClickModel().to(device)
    compiled = torch.compile(model)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    offsets = torch.arange(0, BATCH * BAG, BAG, device=device)
    batches = [make_batch(gen) for _ in range(5)]

    def train_step(batch):
        dense, ids, label = batch
        opt.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(compiled(dense, ids, offsets), label)
        loss.backward()
        opt.step()
        return loss.detach()

    for i in range(4):
        train_step(batches[i])
    sync()
    steps = 60
    losses = []
    t0 = time.perf_counter()
    for i in range(steps):
        losses.append(train_step(batches[i % 5]))
    sync()
    dt = (time.perf_counter() - t0) / steps
    losses = torch.stack(losses)
    print(f"loss {losses[:5].mean().item():.4f} -> {losses[-5:].mean().item():.4f}")
    print(f"{dt * 1e3:.3f} ms per step, {BATCH / dt:.0f} samples/s")


if __name__ == "__main__":
    main()
