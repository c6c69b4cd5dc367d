"""Skip-gram with negative sampling drawn on the fly."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class SGNS(nn.Module):
    def __init__(self, vocab, dim=100, negatives=10):
        super().__init__()
        self.inp, self.out = nn.Embedding(vocab, dim), nn.Embedding(vocab, dim)
        nn.init.uniform_(self.inp.weight, -0.5 / dim, 0.5 / dim)
        self.register_buffer("noise", torch.rand(vocab) ** 0.75)
        self.negatives = negatives

    def forward(self, centre, context):
        c = self.inp(centre)
        pos = (c * self.out(context)).sum(-1)
        neg_ids = torch.multinomial(self.noise, centre.shape[0] * self.negatives, replacement=True).view(
            -1, self.negatives
        )
        neg = torch.einsum("bd,bnd->bn", c, self.out(neg_ids))
        return -(F.logsigmoid(pos) + F.logsigmoid(-neg).sum(-1)).mean()


def build(device, compiled):
    torch.manual_seed(0)
    vocab, batch = pick(10_000, 50), pick(1024, 8)
    model = SGNS(vocab).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_fn = torch.compile(model, backend=BACKEND) if compiled else model
    centre, context = torch.randint(vocab, (2, batch), device=device)

    def step():
        loss = loss_fn(centre, context)
        optimizer.zero_grad()
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
