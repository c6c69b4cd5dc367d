"""User and item towers with in-batch softmax and popularity correction."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Tower(nn.Module):
    def __init__(self, rows, dim=128):
        super().__init__()
        self.embed = nn.Embedding(rows, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 512), nn.GELU(), nn.Linear(512, dim))

    def forward(self, ids, mask):
        x = self.embed(ids)
        x = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return F.normalize(self.mlp(x), dim=-1)


class Retrieval(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.user, self.item = Tower(rows), Tower(rows)

    def forward(self, history, history_mask, items, items_mask, log_pop):
        logits = self.user(history, history_mask) @ self.item(items, items_mask).T / 0.05
        logits = logits - log_pop[None]
        same = (items[:, None, 0] == items[None, :, 0]) & ~torch.eye(
            items.shape[0], dtype=torch.bool, device=items.device
        )
        logits = logits.masked_fill(same, -1e9)
        target = torch.arange(logits.shape[0], device=logits.device)
        return F.cross_entropy(logits, target)


def build(device, compiled):
    torch.manual_seed(0)
    rows, batch = pick(200_000, 200), pick(4096, 16)
    model = Retrieval(rows).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    loss_fn = torch.compile(model, backend=BACKEND) if compiled else model
    history = torch.randint(rows, (batch, 50), device=device)
    items = torch.randint(rows, (batch, 4), device=device)
    hm = (torch.rand(batch, 50, device=device) < 0.8).float()
    im = torch.ones(batch, 4, device=device)
    log_pop = torch.log(torch.rand(batch, device=device) + 1e-3)

    def step():
        loss = loss_fn(history, hm, items, im, log_pop)
        optimizer.zero_grad()
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
