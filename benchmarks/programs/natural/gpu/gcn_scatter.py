"""Graph convolutions with index_add over an edge list, node classification training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class GCNConv(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.lin = nn.Linear(inp, out, bias=False)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x, src, dst):
        deg = (
            torch.zeros(x.shape[0], device=x.device).index_add_(0, dst, torch.ones_like(dst, dtype=x.dtype))
            + 1
        )
        norm = deg.rsqrt()
        x = self.lin(x)
        messages = x[src] * (norm[src] * norm[dst])[:, None]
        out = torch.zeros_like(x).index_add_(0, dst, messages)
        return out + x / deg[:, None] + self.bias


class GCN(nn.Module):
    def __init__(self, inp=128, hidden=128, classes=40):
        super().__init__()
        self.c1, self.c2, self.c3 = GCNConv(inp, hidden), GCNConv(hidden, hidden), GCNConv(hidden, classes)

    def forward(self, x, src, dst):
        x = F.relu(self.c1(x, src, dst))
        x = F.dropout(x, 0.5, self.training)
        x = F.relu(self.c2(x, src, dst))
        x = F.dropout(x, 0.5, self.training)
        return self.c3(x, src, dst)


def build(device, compiled):
    torch.manual_seed(0)
    nodes, edges = pick(50_000, 300), pick(500_000, 1500)
    model = GCN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(nodes, 128, device=device)
    src, dst = torch.randint(nodes, (2, edges), device=device)
    labels = torch.randint(40, (nodes,), device=device)

    def step():
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x, src, dst), labels)
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
