"""RouteNet: end-to-end delays of a routed IP network from traffic and topology.

Paths and links exchange messages: every path reads the states of its links in hop
order with a GRU, every link sums what the paths left on it and updates its own state.
Ground truth is an M/M/1 fixed point per link.  Trained on two networks of different
size, evaluated on unseen traffic matrices.
"""

import heapq
import random

import torch
import torch.nn as nn

torch.manual_seed(8)
random.seed(8)

MAX_HOPS = 6
DIM = 32
ITERS = 4


def random_topology(n_nodes, extra):
    edges = set()
    for v in range(n_nodes):
        edges.add((v, (v + 1) % n_nodes))
    while len(edges) < n_nodes + extra:
        a, b = random.sample(range(n_nodes), 2)
        if (a, b) not in edges and (b, a) not in edges:
            edges.add((a, b))
    links = sorted(edges | {(b, a) for a, b in edges})
    return n_nodes, links


def shortest_paths(n, links):
    index = {e: i for i, e in enumerate(links)}
    adj = [[] for _ in range(n)]
    for a, b in links:
        adj[a].append(b)
    weight = {e: 1.0 + 0.1 * random.random() for e in links}
    routes = []
    for src in range(n):
        dist, prev, heap = {src: 0.0}, {}, [(0.0, src)]
        while heap:
            d, v = heapq.heappop(heap)
            if d > dist[v]:
                continue
            for w in adj[v]:
                nd = d + weight[(v, w)]
                if nd < dist.get(w, 1e9):
                    dist[w], prev[w] = nd, v
                    heapq.heappush(heap, (nd, w))
        for dst in range(n):
            if dst == src:
                continue
            hops, v = [], dst
            while v != src:
                hops.append(index[(prev[v], v)])
                v = prev[v]
            if len(hops) <= MAX_HOPS:
                routes.append(hops[::-1])
    return routes


class Network:
    def __init__(self, n_nodes, extra):
        _, links = random_topology(n_nodes, extra)
        routes = shortest_paths(n_nodes, links)
        self.n_links, self.n_paths = len(links), len(routes)
        self.hops = torch.zeros(self.n_paths, MAX_HOPS, dtype=torch.long)
        self.mask = torch.zeros(self.n_paths, MAX_HOPS, dtype=torch.bool)
        for i, r in enumerate(routes):
            self.hops[i, : len(r)] = torch.tensor(r)
            self.mask[i, : len(r)] = True
        self.capacity = torch.tensor([random.choice([10.0, 25.0, 40.0]) for _ in links])

    def sample(self):
        traffic = torch.rand(self.n_paths) * 10.0 / self.n_paths * self.n_links / 3
        load = torch.zeros(self.n_links).index_add_(
            0, self.hops[self.mask], traffic[:, None].expand(-1, MAX_HOPS)[self.mask]
        )
        scale = 0.9 * torch.rand(()) / (load / self.capacity).max()
        traffic, load = traffic * scale, load * scale
        wait = 1.0 / (self.capacity - load)
        delay = (wait[self.hops] * self.mask).sum(1)
        return traffic, delay


class MessagePassing(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.path_cell = nn.GRUCell(dim, dim)
        self.link_cell = nn.GRUCell(dim, dim)

    def forward(self, h_path, h_link, hops, mask):
        inbox = torch.zeros_like(h_link)
        for k in range(hops.shape[1]):
            on = mask[:, k].unsqueeze(1)
            new = self.path_cell(h_link[hops[:, k]], h_path)
            h_path = torch.where(on, new, h_path)
            inbox.index_add_(0, hops[:, k], h_path * on)
        h_link = self.link_cell(inbox, h_link)
        return h_path, h_link


class RouteNet(nn.Module):
    def __init__(self, dim=DIM):
        super().__init__()
        self.dim = dim
        self.step = torch.compile(MessagePassing(dim))
        self.readout = nn.Sequential(
            nn.Linear(dim, 64), nn.SELU(), nn.Linear(64, 64), nn.SELU(), nn.Linear(64, 1)
        )

    def forward(self, net, traffic):
        h_path = torch.zeros(net.n_paths, self.dim)
        h_path[:, 0] = traffic * 5
        h_link = torch.zeros(net.n_links, self.dim)
        h_link[:, 0] = net.capacity / 40.0
        for _ in range(ITERS):
            h_path, h_link = self.step(h_path, h_link, net.hops, net.mask)
        return self.readout(h_path).squeeze(1)


def main():
    nets = [Network(14, 7), Network(24, 14)]
    for n in nets:
        print(f"network: {n.n_links} links, {n.n_paths} paths")
    model = RouteNet()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    history = []
    for it in range(140):
        net = nets[it % 2]
        traffic, delay = net.sample()
        pred = model(net, traffic)
        loss = nn.functional.huber_loss(pred, delay.log())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        history.append(loss.item())
    print(f"loss first 20: {sum(history[:20]) / 20:.4f}  last 20: {sum(history[-20:]) / 20:.4f}")
    model.eval()
    with torch.no_grad():
        for net in nets:
            errs = []
            for _ in range(10):
                traffic, delay = net.sample()
                errs.append(((model(net, traffic).exp() - delay).abs() / delay).mean())
            print(f"{net.n_paths} paths: mean relative error {torch.stack(errs).mean():.3f}")


if __name__ == "__main__":
    main()
