"""Link prediction on a synthetic biomedical knowledge graph: RGCN encoder, DistMult decoder (PyTorch Geometric)."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import RGCNConv
from torch_geometric.utils import dropout_edge

N_DRUG, N_GENE, N_DISEASE = 500, 1500, 400
TREATS = 0


def make_graph(seed):
    """Latent positions decide who interacts with whom; inverse relations are added."""
    g = torch.Generator().manual_seed(seed)
    n = N_DRUG + N_GENE + N_DISEASE
    pos = torch.randn(n, 3, generator=g)
    block = {"drug": (0, N_DRUG), "gene": (N_DRUG, N_DRUG + N_GENE), "disease": (N_DRUG + N_GENE, n)}
    spec = [
        ("drug", "disease", 4),
        ("drug", "gene", 8),
        ("gene", "gene", 5),
        ("gene", "disease", 3),
        ("drug", "drug", 3),
    ]
    edges, types = [], []
    for r, (a, b, k) in enumerate(spec):
        pa, pb = pos[slice(*block[a])], pos[slice(*block[b])]
        d = torch.cdist(pa, pb + 0.1 * torch.randn(pb.shape, generator=g))
        if a == b:
            d.fill_diagonal_(float("inf"))
        near = d.topk(k, largest=False).indices
        src = torch.arange(len(pa)).repeat_interleave(k) + block[a][0]
        dst = near.flatten() + block[b][0]
        edges.append(torch.stack([src, dst]))
        types.append(torch.full((len(src),), r))
    edge_index, edge_type = torch.cat(edges, 1), torch.cat(types)
    treat = edge_type == TREATS
    held = treat & (torch.rand(len(treat), generator=g) < 0.15)
    data = Data(num_nodes=n, edge_index=edge_index[:, ~held], edge_type=edge_type[~held])
    data.test = edge_index[:, held]
    return data, len(spec)


class KGModel(torch.nn.Module):
    def __init__(self, nodes, relations, dim=40):
        super().__init__()
        self.emb = torch.nn.Parameter(0.1 * torch.randn(nodes, dim))
        self.conv1 = RGCNConv(dim, dim, 2 * relations, num_bases=4)
        self.conv2 = RGCNConv(dim, dim, 2 * relations, num_bases=4)
        self.rel = torch.nn.Parameter(torch.randn(relations, dim) * 0.3)

    def encode(self, edge_index, edge_type):
        x = F.relu(self.conv1(self.emb, edge_index, edge_type))
        x = F.dropout(x, 0.2, self.training)
        return self.conv2(x, edge_index, edge_type)

    def decode(self, z, edge_index, edge_type):
        return (z[edge_index[0]] * self.rel[edge_type] * z[edge_index[1]]).sum(-1)

    def forward(self, mp_index, mp_type, pos_index, neg_index, rel_type):
        z = self.encode(mp_index, mp_type)
        pos = self.decode(z, pos_index, rel_type)
        neg = self.decode(z, neg_index, rel_type)
        loss = F.softplus(-pos).mean() + F.softplus(neg).mean()
        return loss + 1e-3 * (z.pow(2).mean() + self.rel.pow(2).mean())


@torch.no_grad()
def rank_treatments(model, data, relations):
    model.eval()
    z = model.encode(*both_ways(data.edge_index, data.edge_type, relations))
    diseases = torch.arange(N_DRUG + N_GENE, data.num_nodes)
    scores = (z[data.test[0]] * model.rel[TREATS]) @ z[diseases].T
    true = scores.gather(1, (data.test[1] - N_DRUG - N_GENE)[:, None])
    rank = (scores > true).sum(1) + 1
    model.train()
    return (1.0 / rank).mean().item(), (rank <= 10).float().mean().item()


def both_ways(edge_index, edge_type, relations):
    return torch.cat([edge_index, edge_index.flip(0)], 1), torch.cat([edge_type, edge_type + relations])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=80)
    args = ap.parse_args()
    torch.manual_seed(4)
    data, relations = make_graph(4)
    model = KGModel(data.num_nodes, relations)
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    t0 = time.time()
    for epoch in range(args.epochs):
        # hide a fifth of the graph from message passing and predict all of it
        kept, mask = dropout_edge(data.edge_index, p=0.2)
        mp = both_ways(kept, data.edge_type[mask], relations)
        neg = data.edge_index.clone()
        neg[1] = neg[1][torch.randperm(neg.size(1))]
        opt.zero_grad()
        loss = compiled(*mp, data.edge_index, neg, data.edge_type)
        loss.backward()
        opt.step()
        if epoch % 20 == 19:
            mrr, hits = rank_treatments(model, data, relations)
            print(f"{epoch + 1:3d} loss {loss.item():.4f} MRR {mrr:.4f} hits@10 {hits:.4f}")
    print(f"{args.epochs} epochs, {data.num_edges} edges: {time.time() - t0:.1f} s")


if __name__ == "__main__":
    main()
