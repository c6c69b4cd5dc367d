"""Linear-chain CRF log-likelihood by the forward algorithm, training."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.randn(tags) * 0.1), nn.Parameter(torch.randn(tags) * 0.1)
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)

    def score(self, emissions, tags, mask):
        s = self.start[tags[:, 0]] + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
        steps = self.trans[tags[:, :-1], tags[:, 1:]] + emissions[:, 1:].gather(2, tags[:, 1:, None]).squeeze(
            2
        )
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        return s + (steps * mask[:, 1:]).sum(1) + self.end[last]

    def partition(self, emissions, mask):
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            nxt = torch.logsumexp(alpha[:, :, None] + self.trans + emissions[:, t, None], 1)
            alpha = torch.where(mask[:, t, None] > 0, nxt, alpha)
        return torch.logsumexp(alpha + self.end, 1)

    def forward(self, emissions, tags, mask):
        return (self.partition(emissions, mask) - self.score(emissions, tags, mask)).mean()


class Model(nn.Module):
    def __init__(self, tags=24):
        super().__init__()
        self.emit = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, tags))
        self.crf = CRF(tags)

    def forward(self, x, tags, mask):
        return self.crf(self.emit(x), tags, mask)


def build(device, compiled):
    torch.manual_seed(0)
    n, length = pick(256, 4), pick(24, 6)
    model = Model().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    loss_fn = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(n, length, 256, device=device)
    tags = torch.randint(24, (n, length), device=device)
    lengths = torch.randint(length // 2, length + 1, (n, 1), device=device)
    mask = (torch.arange(length, device=device)[None] < lengths).long()

    def step():
        optimizer.zero_grad()
        loss = loss_fn(x, tags, mask)
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
