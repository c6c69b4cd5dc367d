"""EdgeConv network labelling machined parts from sampled surface points.

Neighbour graphs are built once per part and stored as edge lists, messages are
max-aggregated at the receiving point.
"""

import time
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class PartBatch(NamedTuple):
    pos: torch.Tensor  # (B*N, 3)
    edge_index: torch.Tensor  # (2, B*N*k), source -> target
    y: torch.Tensor


def knn_edges(pos, k):
    """pos (B, N, 3) -> edges over the flattened batch."""
    b, n, _ = pos.shape
    nbr = torch.cdist(pos, pos).topk(k + 1, largest=False).indices[..., 1:]
    offset = (torch.arange(b) * n).view(b, 1, 1)
    src = (nbr + offset).reshape(-1)
    dst = torch.arange(b * n).repeat_interleave(k)
    return torch.stack([src, dst])


def scatter_max(src, index, num_nodes):
    out = src.new_zeros(num_nodes, src.size(1))
    index = index.unsqueeze(-1).expand_as(src)
    return out.scatter_reduce(0, index, src, reduce="amax", include_self=False)


class EdgeConv(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.lin = nn.Linear(2 * c_in, c_out)
        self.norm = nn.LayerNorm(c_out)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        x_j = x.index_select(0, src)
        x_i = x.index_select(0, dst)
        msg = F.leaky_relu(self.lin(torch.cat([x_i, x_j - x_i], -1)), 0.2)
        return self.norm(scatter_max(msg, dst, x.size(0)))


class PartNet(nn.Module):
    def __init__(self, n_classes=6, widths=(24, 24, 32)):
        super().__init__()
        chans = (3,) + tuple(widths)
        self.convs = nn.ModuleList([EdgeConv(a, b) for a, b in zip(chans[:-1], chans[1:])])
        self.head = nn.Sequential(nn.Linear(sum(widths), 64), nn.LeakyReLU(0.2), nn.Linear(64, n_classes))

    def forward(self, batch: PartBatch, n_points: int):
        x, feats = batch.pos, []
        for conv in self.convs:
            x = conv(x, batch.edge_index)
            feats.append(x)
        pooled = torch.cat(feats, -1).view(-1, n_points, sum(f.size(-1) for f in feats)).amax(1)
        return self.head(pooled)


def make_parts(n_batches, b, n, k, seed):
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n_batches):
        y = torch.randint(0, 6, (b,), generator=g)
        p = F.normalize(torch.randn(b, n, 3, generator=g), dim=-1)
        power = (0.4 + 0.3 * y.float()).view(b, 1, 1)
        stretch = 0.5 + torch.rand(b, 1, 3, generator=g)
        p = p.sign() * p.abs() ** power * stretch + 0.01 * torch.randn(b, n, 3, generator=g)
        out.append(PartBatch(p.reshape(-1, 3), knn_edges(p, k), y))
    return out


def main():
    torch.manual_seed(4)
    torch.set_num_threads(2)
    n_points, k = 512, 16
    train = make_parts(8, 8, n_points, k, seed=0)
    valid = make_parts(2, 8, n_points, k, seed=1)
    net = PartNet()
    model = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=16)

    for epoch in range(4):
        t0, total = time.perf_counter(), 0.0
        net.train()
        for batch in train:
            logits = model(batch, n_points)
            loss = F.cross_entropy(logits, batch.y, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        dt = time.perf_counter() - t0
        net.eval()
        with torch.no_grad():
            hits = sum((model(v, n_points).argmax(-1) == v.y).sum().item() for v in valid)
        print(
            f"epoch {epoch} loss {total / len(train):.4f} val acc {hits / 16:.3f} {dt / len(train) * 1e3:.1f} ms/step"
        )


if __name__ == "__main__":
    main()
