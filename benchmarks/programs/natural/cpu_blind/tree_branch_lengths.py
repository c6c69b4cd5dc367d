"""Maximum-likelihood branch lengths of a phylogenetic tree (HKY85 + gamma rates)
with Felsenstein's pruning algorithm and autograd."""

import math
import random
import time

import torch

torch.manual_seed(3)
random.seed(3)

TAXA = 20
SITES = 1500
CATEGORIES = 4
EPOCHS = 700


def random_tree(n):
    """Return a postorder list of (parent, left, right); leaves are 0..n-1."""
    active = list(range(n))
    nodes, nxt = [], n
    while len(active) > 1:
        a = active.pop(random.randrange(len(active)))
        b = active.pop(random.randrange(len(active)))
        nodes.append((nxt, a, b))
        active.append(nxt)
        nxt += 1
    return nodes


def rate_matrix(log_kappa, freq_logits):
    pi = torch.softmax(freq_logits, 0)
    kappa = log_kappa.exp()
    ts = torch.zeros(4, 4, dtype=pi.dtype)  # A C G T
    ts[0, 2] = ts[2, 0] = ts[1, 3] = ts[3, 1] = 1.0
    exch = (1 - torch.eye(4, dtype=pi.dtype)) * (1 + (kappa - 1) * ts)
    q = exch * pi
    q = q - torch.diag(q.sum(1))
    scale = -(pi * torch.diagonal(q)).sum()
    return q / scale, pi


def transition_matrices(q, lengths, rates):
    t = lengths[:, None, None, None] * rates[None, :, None, None]
    return torch.matrix_exp(q * t).clamp_min(1e-12)  # branch, cat, 4, 4


class TreeModel(torch.nn.Module):
    def __init__(self, nodes, leaves):
        super().__init__()
        self.nodes = nodes
        self.register_buffer("leaves", leaves)  # taxon, site, 4
        rates = torch.tensor([0.137, 0.477, 1.0, 2.386], dtype=leaves.dtype)
        self.register_buffer("rates", rates / rates.mean())
        branches = 2 * TAXA - 2
        self.log_len = torch.nn.Parameter(torch.full((branches,), math.log(0.1), dtype=leaves.dtype))
        self.log_kappa = torch.nn.Parameter(torch.zeros((), dtype=leaves.dtype))
        self.freqs = torch.nn.Parameter(torch.zeros(4, dtype=leaves.dtype))

    def forward(self):
        q, pi = rate_matrix(self.log_kappa, self.freqs)
        p = transition_matrices(q, self.log_len.exp(), self.rates)
        partial = {i: self.leaves[i].expand(CATEGORIES, -1, -1) for i in range(TAXA)}
        logscale = torch.zeros(self.leaves.shape[1], dtype=self.leaves.dtype)
        for parent, left, right in self.nodes:
            l = partial.pop(left) @ p[left].transpose(-1, -2)
            r = partial.pop(right) @ p[right].transpose(-1, -2)
            both = l * r
            m = both.amax(dim=(0, 2))
            partial[parent] = both / m[None, :, None]
            logscale = logscale + m.log()
        top = partial[self.nodes[-1][0]]
        site = (top * pi).sum(-1).mean(0)
        return -(site.log() + logscale).sum()


def evolve(nodes, lengths):
    """Sample an alignment down the tree."""
    q, pi = rate_matrix(torch.tensor(math.log(3.0)).double(), torch.tensor([0.3, -0.2, -0.1, 0.2]).double())
    p = transition_matrices(q, lengths, torch.ones(1).double())[:, 0]
    states = {nodes[-1][0]: torch.multinomial(pi, SITES, replacement=True)}
    for parent, left, right in reversed(nodes):
        for child in (left, right):
            states[child] = torch.multinomial(p[child][states[parent]], 1)[:, 0]
    tips = torch.stack([states[i] for i in range(TAXA)])
    return torch.nn.functional.one_hot(tips, 4).double()


def main():
    nodes = random_tree(TAXA)
    true_len = 0.02 + 0.25 * torch.rand(2 * TAXA - 2).double()
    leaves = evolve(nodes, true_len)
    model = TreeModel(nodes, leaves)
    nll = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.03)
    start = time.time()
    for epoch in range(EPOCHS):
        opt.zero_grad()
        loss = nll()
        loss.backward()
        opt.step()
        if epoch % 100 == 0:
            print(f"epoch {epoch:4d}  -lnL = {loss.item():.2f}")
    print(f"final -lnL = {loss.item():.2f} in {time.time() - start:.1f} s")
    est = model.log_len.detach().exp()
    print(
        f"kappa {model.log_kappa.exp().item():.2f} (simulated 3.00); "
        f"tree length {est.sum():.2f} (simulated {true_len.sum():.2f})"
    )


if __name__ == "__main__":
    main()
