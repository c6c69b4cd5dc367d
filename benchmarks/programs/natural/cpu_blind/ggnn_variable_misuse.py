"""Gated graph network that finds the misused variable in a function's program graph."""

import torch
import torch.nn as nn

EDGE_TYPES = ["child", "next_token", "last_use", "computed_from"]
DIM, STEPS, TOKENS, KINDS = 96, 5, 3000, 60


def program_graph(gen):
    n = int(torch.randint(80, 260, (1,), generator=gen))
    node = torch.arange(n)
    parent = (torch.rand(n, generator=gen) * node).long()
    edges = [torch.stack([parent[1:], node[1:]]), torch.stack([node[:-1], node[1:]])]
    for share in (3, 5):
        k = n // share
        edges.append(torch.randint(0, n, (2, k), generator=gen))
    types = torch.cat([torch.full((e.shape[1],), t) for t, e in enumerate(edges)])
    n_cand = int(torch.randint(3, 9, (1,), generator=gen))
    cand = torch.randperm(n, generator=gen)[:n_cand]
    token = torch.randint(0, TOKENS, (n,), generator=gen)
    label = int(token[cand].argmax())
    return token, torch.randint(0, KINDS, (n,), generator=gen), torch.cat(edges, 1), types, cand, label


def collate(graphs):
    tokens, kinds, edges, types, cands, owner, labels = [], [], [], [], [], [], []
    start = n_cand = 0
    for g, (tok, kind, e, t, c, label) in enumerate(graphs):
        tokens.append(tok)
        kinds.append(kind)
        edges.append(e + start)
        types.append(t)
        cands.append(c + start)
        owner.append(torch.full((len(c),), g))
        labels.append(n_cand + label)
        start += len(tok)
        n_cand += len(c)
    return dict(
        token=torch.cat(tokens),
        kind=torch.cat(kinds),
        edges=torch.cat(edges, 1),
        types=torch.cat(types),
        cand=torch.cat(cands),
        owner=torch.cat(owner),
        label=torch.tensor(labels),
        n_graphs=len(graphs),
    )


class GGNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(TOKENS, DIM)
        self.kind = nn.Embedding(KINDS, DIM)
        self.fwd = nn.ModuleList(nn.Linear(DIM, DIM, bias=False) for _ in EDGE_TYPES)
        self.bwd = nn.ModuleList(nn.Linear(DIM, DIM, bias=False) for _ in EDGE_TYPES)
        self.gru = nn.GRUCell(DIM, DIM)
        self.gate = nn.Linear(2 * DIM, DIM)
        self.score = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.Tanh(), nn.Linear(DIM, 1))

    def forward(self, token, kind, edges, types, cand):
        h0 = self.token(token) + self.kind(kind)
        by_type = []
        for t in range(len(EDGE_TYPES)):
            sel = edges[:, types == t]
            by_type.append((sel[0], sel[1]))
        h = h0
        for _ in range(STEPS):
            msg = torch.zeros_like(h)
            for (src, dst), f, b in zip(by_type, self.fwd, self.bwd):
                msg = msg.index_add(0, dst, f(h)[src])
                msg = msg.index_add(0, src, b(h)[dst])
            h = self.gru(msg, h)
        both = torch.cat([h, h0], 1)
        h = torch.sigmoid(self.gate(both)) * torch.tanh(h)
        return self.score(torch.cat([h[cand], h0[cand]], 1)).squeeze(1)


def candidate_loss(score, owner, label, n_graphs):
    """Softmax over the candidates of each graph."""
    top = torch.full((n_graphs,), -1e9).scatter_reduce(0, owner, score.detach(), "amax")
    e = (score - top[owner]).exp()
    z = torch.zeros(n_graphs).index_add(0, owner, e)
    logp = score[label] - top - z.log()
    return -logp.mean()


def accuracy(score, owner, label, n_graphs):
    top = torch.full((n_graphs,), -1e9).scatter_reduce(0, owner, score, "amax")
    return (score[label] >= top).float().mean().item()


def main():
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(9)
    graphs = [program_graph(gen) for _ in range(320)]
    model = GGNN()
    step_model = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(3):
        order = torch.randperm(len(graphs), generator=gen).tolist()
        total = hits = batches = 0
        for i in range(0, len(order), 20):
            b = collate([graphs[j] for j in order[i : i + 20]])
            score = step_model(b["token"], b["kind"], b["edges"], b["types"], b["cand"])
            loss = candidate_loss(score, b["owner"], b["label"], b["n_graphs"])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
            hits += accuracy(score.detach(), b["owner"], b["label"], b["n_graphs"])
            batches += 1
        print(f"epoch {epoch}  loss {total / batches:.4f}  accuracy {hits / batches:.3f}")


if __name__ == "__main__":
    main()
