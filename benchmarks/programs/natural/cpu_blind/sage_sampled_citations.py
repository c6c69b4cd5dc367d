"""Topic prediction on a synthetic citation graph with neighbour sampling (GraphSAGE, mean + max pooling)."""

import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    papers: int = 20_000
    topics: int = 12
    features: int = 96
    hidden: int = 96
    fanouts: tuple = (8, 6)
    seeds: int = 256
    epochs: int = 2
    lr: float = 4e-3
    seed: int = 21


class CitationGraph:
    def __init__(self, cfg):
        self.rng = rng = np.random.default_rng(cfg.seed)
        n = cfg.papers
        self.topic = rng.integers(0, cfg.topics, n)
        # popularity is heavy tailed: a few papers get most citations
        pop = rng.pareto(1.8, n) + 0.2
        by_topic = [np.flatnonzero(self.topic == k) for k in range(cfg.topics)]
        src, dst = [], []
        out_deg = rng.poisson(7, n) + 1
        everyone = np.arange(n)
        global_p = pop / pop.sum()
        for k, members in enumerate(by_topic):
            m = out_deg[members].sum()
            owner = np.repeat(members, out_deg[members])
            own_p = pop[members] / pop[members].sum()
            inside = rng.random(m) < 0.7
            target = np.where(inside, rng.choice(members, m, p=own_p), rng.choice(everyone, m, p=global_p))
            src.append(owner)
            dst.append(target)
        a, b = np.concatenate(src), np.concatenate(dst)
        a, b = np.concatenate([a, b]), np.concatenate([b, a])
        order = np.argsort(a, kind="stable")
        self.nbr = b[order]
        self.ptr = np.concatenate([[0], np.cumsum(np.bincount(a, minlength=n))])
        centres = rng.normal(0, 1, (cfg.topics, cfg.features))
        x = 0.35 * centres[self.topic] + rng.normal(0, 1.2, (n, cfg.features))
        self.x = torch.from_numpy(x.astype(np.float32))
        self.y = torch.from_numpy(self.topic)
        perm = rng.permutation(n)
        self.train, self.test = perm[: int(0.6 * n)], perm[int(0.6 * n) :]

    def sample_layer(self, nodes, fanout):
        """Up to `fanout` distinct-or-not neighbours for each node; returns the block's edges."""
        deg = self.ptr[nodes + 1] - self.ptr[nodes]
        take = np.minimum(deg, fanout)
        dst = np.repeat(np.arange(len(nodes)), take)
        pick = (self.rng.random(len(dst)) * np.repeat(deg, take)).astype(np.int64)
        nb = self.nbr[np.repeat(self.ptr[nodes], take) + pick]
        # destination nodes come first in the numbering of the sources
        extra = np.setdiff1d(nb, nodes)
        all_nodes = np.concatenate([nodes, extra])
        lookup = np.empty(len(self.ptr) - 1, np.int64)
        lookup[all_nodes] = np.arange(len(all_nodes))
        return all_nodes, torch.from_numpy(lookup[nb]), torch.from_numpy(dst)

    def blocks(self, seeds, fanouts):
        out, nodes = [], seeds
        for f in fanouts:
            n_dst = len(nodes)
            nodes, src, dst = self.sample_layer(nodes, f)
            out.append((src, dst, n_dst))
        return nodes, out[::-1]


class SageConv(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.pool = nn.Linear(c_in, c_in)
        self.self_lin = nn.Linear(c_in, c_out)
        self.nbr_lin = nn.Linear(2 * c_in, c_out, bias=False)
        self.norm = nn.LayerNorm(c_out)

    def forward(self, x, src, dst, n_dst):
        msg = F.relu(self.pool(x))[src]
        deg = torch.zeros(n_dst, device=x.device).index_add_(0, dst, torch.ones_like(dst, dtype=x.dtype))
        mean = torch.zeros(n_dst, msg.shape[1], device=x.device).index_add_(0, dst, msg)
        mean = mean / deg.clamp(min=1)[:, None]
        peak = torch.zeros(n_dst, msg.shape[1], device=x.device).scatter_reduce(
            0, dst[:, None].expand_as(msg), msg, reduce="amax", include_self=True
        )
        h = self.self_lin(x[:n_dst]) + self.nbr_lin(torch.cat([mean, peak], 1))
        return self.norm(h)


class Sage(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.first = SageConv(cfg.features, cfg.hidden)
        self.second = SageConv(cfg.hidden, cfg.hidden)
        self.head = nn.Linear(cfg.hidden, cfg.topics)

    def forward(self, x, blocks):
        h = F.dropout(F.relu(self.first(x, *blocks[0])), 0.2, self.training)
        return self.head(F.relu(self.second(h, *blocks[1])))


def train_epoch(cfg, graph, net, opt, epoch):
    net.train()
    order = graph.rng.permutation(graph.train)
    t_sample = t_net = 0.0
    n_nodes = right = 0
    total = 0.0
    chunks = [order[i : i + cfg.seeds] for i in range(0, len(order) - cfg.seeds + 1, cfg.seeds)]
    for seeds in chunks:
        a = time.perf_counter()
        nodes, blocks = graph.blocks(seeds, cfg.fanouts)
        x = graph.x[torch.from_numpy(nodes)]
        y = graph.y[torch.from_numpy(seeds)]
        b = time.perf_counter()
        logits = net(x, blocks)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        c = time.perf_counter()
        t_sample += b - a
        t_net += c - b
        n_nodes += len(nodes)
        total += loss.item()
        right += int((logits.argmax(1) == y).sum())
    k = len(chunks)
    print(
        f"epoch {epoch}: loss {total / k:.3f} acc {right / (k * cfg.seeds):.3f} | "
        f"{n_nodes / k:.0f} nodes/batch, sampling {1e3 * t_sample / k:.1f} ms, network {1e3 * t_net / k:.1f} ms"
    )


@torch.no_grad()
def evaluate(cfg, graph, net):
    net.eval()
    right = seen = 0
    for i in range(0, len(graph.test), 1200):
        seeds = graph.test[i : i + 1200]
        nodes, blocks = graph.blocks(seeds, cfg.fanouts)
        pred = net(graph.x[torch.from_numpy(nodes)], blocks).argmax(1)
        right += int((pred == graph.y[torch.from_numpy(seeds)]).sum())
        seen += len(seeds)
    return right / seen


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    graph = CitationGraph(cfg)
    print(f"{cfg.papers} papers, {len(graph.nbr)} directed links, max degree {np.diff(graph.ptr).max()}")
    net = torch.compile(Sage(cfg), dynamic=True)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for epoch in range(1, cfg.epochs + 1):
        train_epoch(cfg, graph, net, opt, epoch)
        print(f"         test accuracy {evaluate(cfg, graph, net):.3f}")


if __name__ == "__main__":
    main()
