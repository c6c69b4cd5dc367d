"""Per-residue burial prediction on C-alpha k-NN graphs.

A light message-passing net: each residue looks at its 30 nearest neighbours,
edges carry radial basis functions and a sequence-separation code.  Chains differ
in length, therefore dynamic shapes.  Used to screen designed backbones, weights
come from the training repository (random here).
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)

K, HID, RBF, LAYERS = 30, 64, 16, 3


def random_backbone(n, g):
    """Self-avoiding-ish chain with 3.8 A steps, compacted to a globule."""
    step = torch.randn(n, 3, generator=g)
    step = 3.8 * step / step.norm(dim=1, keepdim=True)
    xyz = torch.empty(n, 3)
    p = torch.zeros(3)
    for i in range(n):
        p = 0.985 * p + step[i]
        xyz[i] = p
    return xyz


def knn_edges(xyz, k=K):
    """edge_index convention: row 0 = sender, row 1 = receiver."""
    d = torch.cdist(xyz, xyz)
    d.fill_diagonal_(float("inf"))
    dist, nbr = d.topk(k, largest=False)
    recv = torch.arange(xyz.size(0)).repeat_interleave(k)
    return torch.stack([nbr.reshape(-1), recv]), dist.reshape(-1)


class EdgeEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mu", torch.linspace(2.0, 22.0, RBF))
        self.lin = nn.Linear(RBF + 1, HID)

    def forward(self, edge_index, dist):
        rbf = torch.exp(-(((dist[:, None] - self.mu) / 1.25) ** 2))
        sep = (edge_index[0] - edge_index[1]).abs().clamp(max=32).float() / 32.0
        return self.lin(torch.cat([rbf, sep[:, None]], dim=1))


class GatedConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.src = nn.Linear(HID, HID)
        self.dst = nn.Linear(HID, HID)
        self.upd = nn.Linear(2 * HID, HID)
        self.norm = nn.LayerNorm(HID)

    def forward(self, h, edge_index, e):
        send, recv = edge_index[0], edge_index[1]
        a, b = self.src(h), self.dst(h)
        gate = torch.sigmoid(b.index_select(0, recv) + e)
        msg = gate * a.index_select(0, send)
        agg = torch.zeros_like(h).index_add(0, recv, msg)
        return self.norm(h + F.relu(self.upd(torch.cat([h, agg / K], dim=1))))


class BurialNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.aa = nn.Embedding(20, HID)
        self.edge = EdgeEncoder()
        self.convs = nn.ModuleList(GatedConv() for _ in range(LAYERS))
        self.out = nn.Linear(HID, 1)

    def forward(self, seq, edge_index, dist):
        h = self.aa(seq)
        e = self.edge(edge_index, dist)
        for conv in self.convs:
            h = conv(h, edge_index, e)
        return torch.sigmoid(self.out(h)).squeeze(1)


class Screener:
    def __init__(self, net):
        self.net = net.eval()
        self.predict = torch.compile(self.net.forward, dynamic=True)

    @torch.no_grad()
    def burial(self, protein):
        return self.predict(*protein)


def main():
    g = torch.Generator().manual_seed(99)
    proteins = []
    for n in (1180, 1324, 1251, 1406):
        edge_index, dist = knn_edges(random_backbone(n, g))
        proteins.append((torch.randint(0, 20, (n,), generator=g), edge_index, dist))

    screener = Screener(BurialNet())
    for p in proteins:
        screener.burial(p)
    n_steps, buried = 24, 0.0
    t0 = time.perf_counter()
    for i in range(n_steps):
        score = screener.burial(proteins[i % len(proteins)])
        buried += score.mean().item()
    dt = (time.perf_counter() - t0) / n_steps
    print(f"time per step: {dt * 1e3:.2f} ms")
    print(f"result: mean burial {buried / n_steps:.6f}")


if __name__ == "__main__":
    main()
