"""Click prediction with embedding bags, dot interactions and an MLP, trained."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class DLRM(nn.Module):
    def __init__(self, tables=16, rows=100_000, dim=64, dense=13):
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(rows, dim, mode="sum") for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(dense, 256), nn.ReLU(), nn.Linear(256, dim), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + dim, 512), nn.ReLU(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 1)
        )
        i, j = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("i", i)
        self.register_buffer("j", j)

    def forward(self, dense, ids, offsets):
        x = self.bottom(dense)
        feats = torch.stack([x] + [bag(ids[k], offsets) for k, bag in enumerate(self.bags)], 1)
        inter = torch.bmm(feats, feats.transpose(1, 2))[:, self.i, self.j]
        return self.top(torch.cat([x, inter], 1)).squeeze(1)


def build(device, compiled):
    torch.manual_seed(0)
    rows, batch, per = pick(100_000, 100), pick(8192, 8), 8
    model = DLRM(tables=pick(16, 3), rows=rows).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    dense = torch.randn(batch, 13, device=device)
    ids = torch.randint(rows, (len(model.bags), batch * per), device=device)
    offsets = torch.arange(0, batch * per, per, device=device)
    clicks = torch.randint(2, (batch,), device=device).float()

    def step():
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(forward(dense, ids, offsets), clicks)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
