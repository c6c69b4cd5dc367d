"""Text classification with n-gram hashing into an embedding bag, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Classifier(nn.Module):
    def __init__(self, buckets, dim=64, classes=20):
        super().__init__()
        self.bag = nn.EmbeddingBag(buckets, dim, mode="mean")
        self.fc = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, classes))
        self.buckets = buckets

    def forward(self, tokens, offsets):
        bigram = (tokens * 1000003 + tokens.roll(-1)) % self.buckets
        return self.fc(self.bag(tokens, offsets) + self.bag(bigram, offsets))


def build(device, compiled):
    torch.manual_seed(0)
    buckets, batch, length = pick(50_000, 100), pick(256, 4), 60
    model = Classifier(buckets).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    tokens = torch.randint(buckets, (batch * length,), device=device)
    offsets = torch.arange(0, batch * length, length, device=device)
    y = torch.randint(20, (batch,), device=device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(tokens, offsets), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
