"""Hand-written LSTM cell with layer norm, unrolled in time, trained."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class LayerNormLSTMCell(nn.Module):
    def __init__(self, inp, hidden):
        super().__init__()
        self.wx = nn.Linear(inp, 4 * hidden, bias=False)
        self.wh = nn.Linear(hidden, 4 * hidden, bias=False)
        self.ln_x, self.ln_h, self.ln_c = (
            nn.LayerNorm(4 * hidden),
            nn.LayerNorm(4 * hidden),
            nn.LayerNorm(hidden),
        )

    def forward(self, x, h, c):
        gates = self.ln_x(self.wx(x)) + self.ln_h(self.wh(h))
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.ln_c(c))
        return h, c


class Tagger(nn.Module):
    def __init__(self, vocab=5000, dim=256, hidden=512, tags=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = LayerNormLSTMCell(dim, hidden)
        self.out = nn.Linear(hidden, tags)
        self.hidden = hidden

    def forward(self, tokens):
        x = self.embed(tokens)
        h = c = x.new_zeros(x.shape[0], self.hidden)
        outs = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], h, c)
            outs.append(h)
        return self.out(torch.stack(outs, 1))


def build(device, compiled):
    torch.manual_seed(0)
    model = Tagger().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    tokens = torch.randint(5000, (pick(128, 4), pick(20, 4)), device=device)
    tags = torch.randint(32, tokens.shape, device=device)

    def step():
        loss = F.cross_entropy(forward(tokens).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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
