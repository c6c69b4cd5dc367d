"""Message passing on batched molecules with edge networks and a segment readout, training."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Step(nn.Module):
    def __init__(self, dim, edge):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * dim + edge, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.gate = nn.Linear(2 * dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, src, dst, e):
        m = self.msg(torch.cat([x[src], x[dst], e], -1))
        agg = torch.zeros_like(x).index_add_(0, dst, m)
        g = torch.sigmoid(self.gate(torch.cat([x, agg], -1)))
        return self.norm(x + g * agg)


class MPNN(nn.Module):
    def __init__(self, atoms=20, dim=64, edge=16):
        super().__init__()
        self.embed = nn.Embedding(atoms, dim)
        self.steps = nn.ModuleList([Step(dim, edge) for _ in range(3)])
        self.read = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, 1))
        self.register_buffer("centers", torch.linspace(0, 5, edge))

    def forward(self, z, pos, src, dst, batch, graphs):
        x = self.embed(z)
        d = (pos[src] - pos[dst]).norm(dim=-1, keepdim=True)
        e = torch.exp(-4 * (d - self.centers) ** 2)
        for s in self.steps:
            x = s(x, src, dst, e)
        add = x.new_zeros(graphs, x.shape[1]).index_add(0, batch, x)
        top = x.new_full((graphs, x.shape[1]), -1e9).scatter_reduce(0, batch[:, None].expand_as(x), x, "amax")
        return self.read(torch.cat([add, top], -1)).squeeze(-1)


def build(device, compiled):
    torch.manual_seed(0)
    graphs, per = pick(64, 3), 18
    nodes = graphs * per
    model = MPNN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    batch = torch.arange(graphs, device=device).repeat_interleave(per)
    offset = torch.randint(1, per, (nodes * 4,), device=device)
    src = torch.arange(nodes, device=device).repeat(4)
    dst = src // per * per + (src % per + offset) % per
    z, pos, y = (
        torch.randint(20, (nodes,), device=device),
        torch.randn(nodes, 3, device=device),
        torch.randn(graphs, device=device),
    )

    def step():
        optimizer.zero_grad()
        loss = F.l1_loss(forward(z, pos, src, dst, batch, graphs), y)
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
