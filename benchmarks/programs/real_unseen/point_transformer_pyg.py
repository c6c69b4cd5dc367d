"""Classifies synthetic point clouds with PyTorch Geometric's PointTransformerConv over k-nearest-neighbour graphs built with cdist."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_geometric.nn import MLP, PointTransformerConv, global_max_pool


def sample_clouds(batch, n, gen):
    label = torch.randint(0, 4, (batch,), device="cuda", generator=gen)
    u = torch.rand(batch, n, 2, device="cuda", generator=gen)
    th, ph = 2 * math.pi * u[..., 0], 2 * math.pi * u[..., 1]
    sphere = torch.stack([th.cos() * (ph / 2).sin(), th.sin() * (ph / 2).sin(), (ph / 2).cos()], -1)
    torus = torch.stack(
        [(1 + 0.3 * ph.cos()) * th.cos(), (1 + 0.3 * ph.cos()) * th.sin(), 0.3 * ph.sin()], -1
    )
    cyl = torch.stack([th.cos(), th.sin(), 2 * u[..., 1] - 1], -1)
    plane = torch.stack([2 * u[..., 0] - 1, 2 * u[..., 1] - 1, 0.2 * torch.sin(th)], -1)
    shapes = torch.stack([sphere, torus, cyl, plane], 1)
    pts = shapes[torch.arange(batch, device="cuda"), label]
    pts = pts + 0.02 * torch.randn(pts.shape, device="cuda", generator=gen)
    return pts, label


@torch.no_grad()
def knn_edges(pts, k):
    b, n, _ = pts.shape
    nbr = torch.cdist(pts, pts).topk(k, largest=False).indices
    offset = torch.arange(b, device=pts.device).view(b, 1, 1) * n
    src = (nbr + offset).reshape(-1)
    dst = torch.arange(b * n, device=pts.device).repeat_interleave(k)
    return torch.stack([src, dst])


class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin_in, self.lin_out = nn.Linear(i, o), nn.Linear(o, o)
        self.conv = PointTransformerConv(
            o,
            o,
            pos_nn=MLP([3, 64, o], norm=None, plain_last=False),
            attn_nn=MLP([o, 64, o], norm=None, plain_last=False),
            add_self_loops=False,
        )
        self.norm = nn.LayerNorm(o)

    def forward(self, x, pos, edge_index):
        h = self.lin_in(x).relu()
        h = h + self.conv(h, pos, edge_index)
        return self.norm(self.lin_out(h).relu())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1, self.b2 = Block(3, 64), Block(64, 128)
        self.head = MLP([128, 64, 4], norm=None, dropout=0.1)

    def forward(self, pos, edge_index, batch, num_graphs: int):
        x = self.b2(self.b1(pos, pos, edge_index), pos, edge_index)
        return self.head(global_max_pool(x, batch, size=num_graphs))


def main():
    torch.manual_seed(12)
    gen = torch.Generator(device="cuda").manual_seed(12)
    model = Net().cuda()
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    correct, losses = 0.0, []
    for step in range(24):
        pts, y = sample_clouds(16, 512, gen)
        edges = knn_edges(pts, 16)
        batch = torch.arange(16, device="cuda").repeat_interleave(512)
        logits = net(pts.reshape(-1, 3), edges, batch, 16)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        correct += (logits.argmax(1) == y).float().mean().item()
    print("loss %.4f -> %.4f, mean acc %.3f" % (losses[0], losses[-1], correct / 24))


if __name__ == "__main__":
    main()
