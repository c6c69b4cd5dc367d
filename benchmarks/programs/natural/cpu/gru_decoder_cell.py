"""GRU-cell decoder with Bahdanau attention, greedy decoding of a short sentence."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Decoder(nn.Module):
    def __init__(self, vocab, dim=128, hidden=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim + hidden, hidden)
        self.wq, self.wk, self.v = (
            nn.Linear(hidden, hidden, bias=False),
            nn.Linear(hidden, hidden, bias=False),
            nn.Linear(hidden, 1, bias=False),
        )
        self.out = nn.Linear(2 * hidden, vocab)

    def forward(self, memory, mask, steps):
        keys = self.wk(memory)
        h = memory.mean(1)
        token = torch.zeros(memory.shape[0], dtype=torch.long, device=memory.device)
        tokens = []
        for _ in range(steps):
            score = self.v(torch.tanh(self.wq(h)[:, None] + keys)).squeeze(-1).masked_fill(~mask, -1e9)
            context = (score.softmax(-1)[..., None] * memory).sum(1)
            h = self.cell(torch.cat([self.embed(token), context], -1), h)
            token = self.out(torch.cat([h, context], -1)).argmax(-1)
            tokens.append(token)
        return torch.stack(tokens, 1)


def build(device, compiled):
    torch.manual_seed(0)
    model = Decoder(pick(4000, 50)).to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    n, length, steps = pick(8, 2), pick(40, 6), pick(10, 3)
    memory = torch.randn(n, length, 256, device=device)
    mask = torch.arange(length, device=device)[None] < torch.randint(
        length // 2, length + 1, (n, 1), device=device
    )

    @torch.no_grad()
    def step():
        return model(memory, mask, steps)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
