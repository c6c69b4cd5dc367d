"""Graph attention network that scores accounts of a payment network for fraud.

Full-graph training, COO edge list, attention softmax per receiving account.
"""

import argparse
import logging
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("gat")


def payment_graph(n, e, d, seed=3):
    g = torch.Generator().manual_seed(seed)
    # heavy tailed receivers: merchants get a lot of payments
    pop = torch.rand(n, generator=g).pow(-0.6)
    dst = torch.multinomial(pop, e, replacement=True, generator=g)
    src = torch.randint(0, n, (e,), generator=g)
    loops = torch.arange(n)
    src, dst = torch.cat([src, loops]), torch.cat([dst, loops])
    x = torch.randn(n, d, generator=g)
    amount = torch.randn(len(src), 4, generator=g)
    risky = (x[:, 0] > 1.2).float()
    hit = torch.zeros(n).index_add_(0, dst, risky[src]) / torch.zeros(n).index_add_(
        0, dst, torch.ones(len(dst))
    )
    y = ((hit + 0.3 * risky + 0.05 * torch.randn(n, generator=g)) > 0.28).float()
    return x, src, dst, amount, y


class GATLayer(nn.Module):
    def __init__(self, d_in, d_head, heads, d_edge):
        super().__init__()
        self.h, self.d = heads, d_head
        self.lin = nn.Linear(d_in, heads * d_head, bias=False)
        self.edge = nn.Linear(d_edge, heads, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, d_head) * 0.1)
        self.a_dst = nn.Parameter(torch.randn(heads, d_head) * 0.1)
        self.skip = nn.Linear(d_in, heads * d_head)

    def forward(self, x, src, dst, edge_attr):
        n = x.size(0)
        z = self.lin(x).view(n, self.h, self.d)
        s = (z * self.a_src).sum(-1)
        t = (z * self.a_dst).sum(-1)
        score = F.leaky_relu(s[src] + t[dst] + self.edge(edge_attr), 0.2)
        # softmax over incoming edges
        idx = dst.unsqueeze(1).expand_as(score)
        m = torch.full((n, self.h), float("-inf")).scatter_reduce(
            0, idx, score.detach(), reduce="amax", include_self=True
        )
        ex = torch.exp(score - m[dst])
        den = torch.zeros(n, self.h).index_add(0, dst, ex)
        alpha = ex / (den[dst] + 1e-9)
        msg = z[src] * alpha.unsqueeze(-1)
        out = torch.zeros(n, self.h, self.d).index_add(0, dst, msg)
        return out.flatten(1) + self.skip(x)


class FraudGAT(nn.Module):
    def __init__(self, d_in, d_edge=4, d_head=16, heads=4):
        super().__init__()
        w = d_head * heads
        self.g1 = GATLayer(d_in, d_head, heads, d_edge)
        self.n1 = nn.LayerNorm(w)
        self.g2 = GATLayer(w, d_head, heads, d_edge)
        self.n2 = nn.LayerNorm(w)
        self.head = nn.Sequential(nn.Linear(w, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, src, dst, e):
        x = F.elu(self.n1(self.g1(x, src, dst, e)))
        x = F.elu(self.n2(self.g2(x, src, dst, e)))
        return self.head(x).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=6000)
    ap.add_argument("--edges", type=int, default=60000)
    ap.add_argument("--epochs", type=int, default=60)
    args = ap.parse_args()
    torch.manual_seed(0)

    x, src, dst, e, y = payment_graph(args.nodes, args.edges, 24)
    train = torch.rand(args.nodes) < 0.7
    model = FraudGAT(24)
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    pos_weight = (1 - y).sum() / y.sum().clamp(min=1)
    log.info("%d nodes, %d edges, %.1f%% fraud", args.nodes, len(src), 100 * y.mean())

    t0 = time.time()
    for ep in range(1, args.epochs + 1):
        logit = compiled(x, src, dst, e)
        loss = F.binary_cross_entropy_with_logits(logit[train], y[train], pos_weight=pos_weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if ep % 10 == 0:
            pred = (logit.detach() > 0).float()
            tp = (pred * y)[~train].sum()
            prec = tp / pred[~train].sum().clamp(min=1)
            rec = tp / y[~train].sum().clamp(min=1)
            log.info(
                "epoch %3d loss %.4f  P %.3f R %.3f  (%.0f ms/epoch)",
                ep,
                loss.item(),
                prec,
                rec,
                (time.time() - t0) / 10 * 1e3,
            )
            t0 = time.time()


if __name__ == "__main__":
    main()
