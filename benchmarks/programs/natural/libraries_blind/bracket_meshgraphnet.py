"""Trains a MeshGraphNet on PyG batches of randomly cut bracket meshes to predict nodal displacement and stress."""

import torch
import torch.nn as nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MessagePassing, global_max_pool
from torch_geometric.nn.models import MLP

HIDDEN = 64


class ProcessorLayer(MessagePassing):
    def __init__(self, hidden):
        super().__init__(aggr="add")
        self.edge_mlp = MLP([3 * hidden, hidden, hidden], norm=None, act="silu")
        self.node_mlp = MLP([2 * hidden, hidden, hidden], norm=None, act="silu")
        self.edge_norm = nn.LayerNorm(hidden)
        self.node_norm = nn.LayerNorm(hidden)

    def forward(self, x, edge_index, edge_attr):
        edge_attr = self.edge_updater(edge_index, x=x, edge_attr=edge_attr)
        out = self.propagate(edge_index, x=x, edge_attr=edge_attr)
        update = self.node_mlp(torch.cat([x, out], -1))
        return x + self.node_norm(update), edge_attr

    def edge_update(self, x_i, x_j, edge_attr):
        return edge_attr + self.edge_norm(self.edge_mlp(torch.cat([x_i, x_j, edge_attr], -1)))

    def message(self, edge_attr):
        return edge_attr


class MeshGraphNet(nn.Module):
    def __init__(self, node_in, edge_in, out, layers=5, hidden=HIDDEN):
        super().__init__()
        self.node_enc = nn.Sequential(nn.Linear(node_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.edge_enc = nn.Sequential(nn.Linear(edge_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.layers = nn.ModuleList([ProcessorLayer(hidden) for _ in range(layers)])
        self.decoder = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, out))

    def forward(self, x, edge_index, edge_attr):
        x = self.node_enc(x)
        e = self.edge_enc(edge_attr)
        for layer in self.layers:
            x, e = layer(x, edge_index, e)
        return self.decoder(x)


def bracket(g):
    rows = int(torch.randint(10, 17, (1,), generator=g))
    cols = int(torch.randint(12, 21, (1,), generator=g))
    yy, xx = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    pos = torch.stack([xx, yy], -1).reshape(-1, 2).float()
    pos = pos + 0.15 * torch.randn(pos.shape, generator=g)
    hole = torch.rand(2, generator=g) * torch.tensor([cols / 2, rows / 2]) + torch.tensor(
        [cols / 4, rows / 4]
    )
    radius = 1.5 + torch.rand(1, generator=g)
    pos = pos[(pos - hole).norm(dim=-1) > radius]
    n = len(pos)
    dist = torch.cdist(pos, pos)
    edge_index = ((dist < 1.75) & ~torch.eye(n, dtype=torch.bool)).nonzero().t().contiguous()
    fixed = (pos[:, 0] < 0.6).float()
    loaded = (pos[:, 0] > cols - 1.6).float()
    force = torch.randn(2, generator=g)
    x = torch.cat([torch.stack([fixed, loaded], -1), loaded[:, None] * force], -1)
    rel = pos[edge_index[1]] - pos[edge_index[0]]
    edge_attr = torch.cat([rel, rel.norm(dim=-1, keepdim=True)], -1)
    arm = pos[:, :1] / cols
    disp = arm.square() * (3 - arm) * force * 0.5
    near = torch.exp(-((pos - hole).norm(dim=-1) - radius) / 1.5)
    stress = (1 - arm[:, 0]) * force.norm() * (0.5 + near)
    return Data(x=x, edge_index=edge_index, edge_attr=edge_attr, y=torch.cat([disp, stress[:, None]], -1))


def main():
    torch.set_num_threads(2)
    torch.manual_seed(16)
    g = torch.Generator().manual_seed(16)
    train = DataLoader([bracket(g) for _ in range(160)], batch_size=4, shuffle=True, drop_last=True)
    test = DataLoader([bracket(g) for _ in range(24)], batch_size=4)

    model = MeshGraphNet(4, 3, 3)
    compiled = torch.compile(model, dynamic=True)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    for epoch in range(4):
        total = 0.0
        for batch in train:
            pred = compiled(batch.x, batch.edge_index, batch.edge_attr)
            loss = nn.functional.smooth_l1_loss(pred, batch.y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(train):.4f}")

    errors = []
    model.eval()
    with torch.no_grad():
        for batch in test:
            pred = compiled(batch.x, batch.edge_index, batch.edge_attr)
            peak = global_max_pool(pred[:, 2:], batch.batch)
            errors.append((peak - global_max_pool(batch.y[:, 2:], batch.batch)).abs().mean())
    print(f"peak stress error {torch.stack(errors).mean():.3f}")


if __name__ == "__main__":
    main()
