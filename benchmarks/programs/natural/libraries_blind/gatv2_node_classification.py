"""Full-batch node classification with GATv2 (torch_geometric) on a synthetic community graph."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv
from torch_geometric.utils import add_self_loops, coalesce, to_undirected


def make_graph(n=3000, classes=7, feats=128, degree=4, generator=None):
    y = torch.randint(0, classes, (n,), generator=generator)
    order = torch.argsort(y)
    start = torch.searchsorted(y[order].contiguous(), torch.arange(classes))
    count = torch.bincount(y, minlength=classes)
    src = torch.arange(n).repeat_interleave(degree)
    same = torch.rand(src.numel(), generator=generator) < 0.8
    u = torch.rand(src.numel(), generator=generator)
    inside = order[start[y[src]] + (u * count[y[src]]).long()]
    anywhere = torch.randint(0, n, (src.numel(),), generator=generator)
    dst = torch.where(same, inside, anywhere)
    keep = src != dst
    edge_index = torch.stack([src[keep], dst[keep]])
    edge_index = coalesce(to_undirected(edge_index, num_nodes=n))
    edge_index, _ = add_self_loops(edge_index, num_nodes=n)
    centres = torch.randn(classes, feats, generator=generator)
    x = 0.25 * centres[y] + torch.randn(n, feats, generator=generator)
    perm = torch.randperm(n, generator=generator)
    train_mask = torch.zeros(n, dtype=torch.bool)
    train_mask[perm[: n // 5]] = True
    return Data(x=x, edge_index=edge_index, y=y, train_mask=train_mask)


class GAT(nn.Module):
    def __init__(self, in_dim, hidden, classes, heads):
        super().__init__()
        self.conv1 = GATv2Conv(in_dim, hidden, heads=heads, dropout=0.2, add_self_loops=False)
        self.conv2 = GATv2Conv(
            hidden * heads, classes, heads=1, concat=False, dropout=0.2, add_self_loops=False
        )

    def forward(self, x, edge_index):
        x = F.dropout(x, 0.3, training=self.training)
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, 0.3, training=self.training)
        return self.conv2(x, edge_index)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(2)
    data = make_graph(generator=g)
    model = GAT(data.num_features, 8, int(data.y.max()) + 1, heads=8)
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    print(f"{data.num_nodes} nodes, {data.num_edges} edges")

    def train_epoch():
        model.train()
        opt.zero_grad()
        out = net(data.x, data.edge_index)
        loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        opt.step()
        return loss.detach()

    losses, times = [], []
    for epoch in range(60):
        t0 = time.perf_counter()
        losses.append(train_epoch())
        if epoch >= 15:
            times.append(time.perf_counter() - t0)

    model.eval()
    with torch.no_grad():
        pred = model(data.x, data.edge_index).argmax(dim=-1)
    acc = (pred == data.y)[~data.train_mask].float().mean().item()
    assert acc > 0.5, acc
    times.sort()
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, test accuracy {acc:.3f}")
    print(
        f"median {1e3 * times[len(times) // 2]:.2f} ms, mean {1e3 * sum(times) / len(times):.2f} ms per epoch"
    )


if __name__ == "__main__":
    main()
