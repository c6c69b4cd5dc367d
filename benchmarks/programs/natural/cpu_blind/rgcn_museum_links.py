"""R-GCN encoder + DistMult decoder for link prediction in a museum's knowledge graph (Schlichtkrull et al. 2018)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

N_ENT, N_REL, N_EDGES = 3000, 9, 24000
DIM = 64
STEPS = 70
NEG = 4


def synth_graph(seed=5):
    """Objects, makers, places, periods: relations connect clusters of entities with some noise."""
    g = torch.Generator().manual_seed(seed)
    cluster = torch.randint(0, 30, (N_ENT,), generator=g)
    rel_map = torch.stack([torch.randperm(30, generator=g) for _ in range(N_REL)])
    by_cluster = [torch.nonzero(cluster == c).flatten() for c in range(30)]
    freq = 1.0 / torch.arange(1, N_REL + 1).float()
    rel = torch.multinomial(freq, N_EDGES, replacement=True, generator=g)
    head = torch.randint(0, N_ENT, (N_EDGES,), generator=g)
    tail = torch.empty_like(head)
    for i in range(N_EDGES):
        pool = by_cluster[int(rel_map[rel[i], cluster[head[i]]])]
        tail[i] = pool[int(torch.randint(0, len(pool), (1,), generator=g))]
    return torch.stack([head, rel, tail], dim=1)


class RGCNLayer(nn.Module):
    def __init__(self, d_in, d_out, n_rel, n_bases=4):
        super().__init__()
        self.n_rel = n_rel
        self.bases = nn.Parameter(torch.empty(n_bases, d_in, d_out))
        self.coeff = nn.Parameter(torch.empty(n_rel, n_bases))
        self.self_loop = nn.Linear(d_in, d_out)
        nn.init.xavier_uniform_(self.bases)
        nn.init.xavier_uniform_(self.coeff)

    def forward(self, x, edge_index, edge_type):
        weight = torch.einsum("rb,bio->rio", self.coeff, self.bases)
        out = self.self_loop(x)
        for r in range(self.n_rel):
            mask = edge_type == r
            src, dst = edge_index[:, mask]
            if src.numel() == 0:
                continue
            msg = x[src] @ weight[r]
            deg = torch.zeros(x.shape[0]).index_add_(0, dst, torch.ones(dst.shape[0]))
            msg = msg / deg[dst].unsqueeze(1)
            out = out.index_add(0, dst, msg)
        return out


class LinkPredictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_ENT, DIM)
        self.rel = nn.Parameter(torch.randn(N_REL, DIM) * 0.3)
        # every relation also has its inverse
        self.conv1 = RGCNLayer(DIM, DIM, 2 * N_REL)
        self.conv2 = RGCNLayer(DIM, DIM, 2 * N_REL)
        nn.init.normal_(self.emb.weight, std=0.5)

    def encode(self, edge_index, edge_type):
        h = F.relu(self.conv1(self.emb.weight, edge_index, edge_type))
        h = F.dropout(h, 0.2, training=self.training)
        return self.conv2(h, edge_index, edge_type)

    def score(self, h, triples):
        return (h[triples[..., 0]] * self.rel[triples[..., 1]] * h[triples[..., 2]]).sum(-1)

    def forward(self, edge_index, edge_type, triples):
        return self.score(self.encode(edge_index, edge_type), triples)


def with_inverse(tr):
    edge_index = torch.cat([tr[:, [0, 2]], tr[:, [2, 0]]]).t().contiguous()
    edge_type = torch.cat([tr[:, 1], tr[:, 1] + N_REL])
    return edge_index, edge_type


def corrupt(pos):
    neg = pos.repeat(NEG, 1)
    rand = torch.randint(0, N_ENT, (len(neg),))
    side = torch.rand(len(neg)) < 0.5
    neg[:, 0] = torch.where(side, rand, neg[:, 0])
    neg[:, 2] = torch.where(side, neg[:, 2], rand)
    return neg


def main():
    triples = synth_graph()
    torch.manual_seed(0)
    order = torch.randperm(N_EDGES)
    valid, train = triples[order[:1500]], triples[order[1500:]]
    model = LinkPredictor()
    model.compile()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        pick = torch.randperm(len(train))[:14000]
        split = len(pick) // 2
        graph, pos = train[pick[:split]], train[pick[split:]]
        samples = torch.cat([pos, corrupt(pos)])
        labels = torch.cat([torch.ones(len(pos)), torch.zeros(len(samples) - len(pos))])
        logits = model(*with_inverse(graph), samples)
        loss = F.binary_cross_entropy_with_logits(logits, labels) + 1e-3 * model.rel.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        h = model.encode(*with_inverse(train))
        query = h[valid[:, 0]] * model.rel[valid[:, 1]]
        scores = query @ h.t()
        rank = (scores > scores.gather(1, valid[:, 2:3])).sum(1) + 1
    print(f"MRR {(1 / rank.float()).mean():.4f}  hits@10 {(rank <= 10).float().mean():.4f}")


if __name__ == "__main__":
    main()
