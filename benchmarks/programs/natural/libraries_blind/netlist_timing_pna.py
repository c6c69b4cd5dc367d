"""Pre-routing arrival-time regression on gate-level netlists with PNA (PyTorch Geometric)."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import BatchNorm, PNAConv
from torch_geometric.utils import degree

torch.manual_seed(11)
N_CELL_TYPES = 48


def synthetic_netlist(gen):
    """Random levelised combinational block: each gate draws 1-4 fan-ins from earlier gates."""
    n = int(torch.randint(700, 1300, (1,), generator=gen))
    n_pi = n // 12
    fanin = torch.randint(1, 5, (n,), generator=gen)
    fanin[:n_pi] = 0
    dst = torch.repeat_interleave(torch.arange(n), fanin)
    # local wiring: a driver is geometrically close in topological order, sometimes far (high fan-out nets)
    back = (torch.rand(len(dst), generator=gen) ** 3 * dst).long() + 1
    src = (dst - back).clamp(min=0)
    hub = torch.rand(len(dst), generator=gen) < 0.05
    src[hub] = src[hub] % max(n_pi // 4, 1)
    cell = torch.randint(0, N_CELL_TYPES, (n,), generator=gen)
    xy = torch.rand(n, 2, generator=gen)
    wire = (xy[src] - xy[dst]).abs().sum(1, keepdim=True)
    fanout = degree(src, n)
    intrinsic = 0.2 + 0.02 * cell + 0.05 * fanout
    arrival = torch.zeros(n)
    for level in range(12):
        cand = arrival[src] + intrinsic[src] + 0.3 * wire[:, 0]
        arrival = torch.zeros(n).scatter_reduce(0, dst, cand, "amax", include_self=True)
    feats = torch.stack([fanout.log1p(), fanin.float(), xy[:, 0], xy[:, 1]], 1)
    eattr = torch.cat([wire, torch.rand(len(dst), 2, generator=gen)], 1)
    return Data(x=feats, cell=cell, edge_index=torch.stack([src, dst]), edge_attr=eattr, y=arrival)


class TimingPNA(nn.Module):
    def __init__(self, deg, hidden=64, layers=3):
        super().__init__()
        self.cell_emb = nn.Embedding(N_CELL_TYPES, hidden - 8)
        self.feat = nn.Linear(4, 8)
        self.edge = nn.Linear(3, 16)
        aggregators = ["mean", "min", "max", "std"]
        scalers = ["identity", "amplification", "attenuation"]
        self.convs = nn.ModuleList(
            PNAConv(
                hidden,
                hidden,
                aggregators,
                scalers,
                deg,
                edge_dim=16,
                towers=4,
                pre_layers=1,
                post_layers=1,
                divide_input=True,
            )
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(BatchNorm(hidden) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(hidden, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, cell, edge_index, edge_attr):
        h = torch.cat([self.cell_emb(cell), self.feat(x)], dim=-1)
        e = self.edge(edge_attr)
        for conv, norm in zip(self.convs, self.norms):
            h = h + F.relu(norm(conv(h, edge_index, e)))
        return self.head(h).squeeze(-1)


def in_degree_histogram(dataset):
    hist = torch.zeros(64, dtype=torch.long)
    for d in dataset:
        deg = degree(d.edge_index[1], d.num_nodes, dtype=torch.long)
        hist += torch.bincount(deg, minlength=64)[:64]
    return hist[: int(hist.nonzero().max()) + 1]


def main():
    gen = torch.Generator().manual_seed(3)
    train = [synthetic_netlist(gen) for _ in range(40)]
    test = [synthetic_netlist(gen) for _ in range(8)]
    loader = DataLoader(train, batch_size=2, shuffle=True)
    test_loader = DataLoader(test, batch_size=4)

    model = TimingPNA(in_degree_histogram(train))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    compiled = torch.compile(model, dynamic=True)

    for epoch in range(5):
        model.train()
        t0, total = time.time(), 0.0
        for batch in loader:
            opt.zero_grad()
            pred = compiled(batch.x, batch.cell, batch.edge_index, batch.edge_attr)
            loss = F.smooth_l1_loss(pred, batch.y)
            loss.backward()
            opt.step()
            total += loss.item()
        took = time.time() - t0
        model.eval()
        err = []
        with torch.no_grad():
            for batch in test_loader:
                pred = compiled(batch.x, batch.cell, batch.edge_index, batch.edge_attr)
                err.append((pred - batch.y).abs().mean())
        print(
            f"epoch {epoch}: train {total / len(loader):.4f}  test MAE {torch.stack(err).mean():.4f} ns"
            f"  {took / len(loader) * 1e3:.0f} ms/step"
        )


if __name__ == "__main__":
    main()
