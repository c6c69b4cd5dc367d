"""Bayesian phylogeny: Metropolis sampling of topology, branch lengths and HKY+G parameters.

Felsenstein pruning on site patterns; the tree is kept as a post-order list
[(parent, left, right), ...], leaves are 0..n-1 and the root comes last.
"""

import math
import random
import time

import torch

torch.manual_seed(2)
rng = random.Random(2)

N_TAXA = 14
N_SITES = 3000
FREQS = torch.tensor([0.31, 0.19, 0.22, 0.28])
CATS = torch.tensor([0.137, 0.477, 1.000, 2.386])


def hky(kappa):
    # order A C G T, transitions are A<->G and C<->T
    q = FREQS.repeat(4, 1).clone()
    q[0, 2] *= kappa
    q[2, 0] *= kappa
    q[1, 3] *= kappa
    q[3, 1] *= kappa
    q.fill_diagonal_(0.0)
    q = q - torch.diag(q.sum(1))
    return q / -(FREQS * q.diagonal()).sum()


def eigen(kappa):
    """Q is reversible, so diagonalise the symmetrised matrix."""
    root = FREQS.sqrt()
    sym = hky(kappa) * root[:, None] / root[None, :]
    lam, u = torch.linalg.eigh(0.5 * (sym + sym.T))
    return lam, u / root[:, None], u.T * root[None, :]


@torch.compile
def log_likelihood(tree, blen, tips, counts, lam, left, right, cats, freqs):
    # transition matrices of every branch and rate category: (branch, cat, 4, 4)
    expo = torch.exp(lam * blen[:, None, None] * cats[None, :, None])
    p = torch.einsum("ij,bcj,jk->bcik", left, expo, right).clamp_min(0)
    partial = {i: tips[i][None] for i in range(tips.shape[0])}
    log_scale = torch.zeros_like(counts)
    for parent, a, b in tree:
        la = torch.matmul(partial[a], p[a].transpose(-1, -2))
        lb = torch.matmul(partial[b], p[b].transpose(-1, -2))
        prod = la * lb
        m = prod.amax(dim=(0, 2))
        partial[parent] = prod / m[None, :, None]
        log_scale = log_scale + torch.log(m)
    root = tree[-1][0]
    site = (partial[root] * freqs).sum(-1).mean(0)
    return (counts * (torch.log(site) + log_scale)).sum()


def random_tree(n):
    nodes, tree, nxt = list(range(n)), [], n
    while len(nodes) > 1:
        a, b = rng.sample(nodes, 2)
        nodes = [x for x in nodes if x not in (a, b)] + [nxt]
        tree.append((nxt, a, b))
        nxt += 1
    return tree


def nni(tree):
    """Swap a random internal node's child with its aunt, then restore the post-order."""
    kids = {p: [a, b] for p, a, b in tree}
    root = tree[-1][0]
    par, child = rng.choice([(p, c) for p in kids for c in kids[p] if c in kids])
    i = kids[par].index(child)
    j = rng.randrange(2)
    kids[par][1 - i], kids[child][j] = kids[child][j], kids[par][1 - i]
    out = []

    def walk(v):
        if v in kids:
            for c in kids[v]:
                walk(c)
            out.append((v, kids[v][0], kids[v][1]))

    walk(root)
    return out


def simulate(tree, blen, kappa):
    lam, left, right = eigen(kappa)
    rate = CATS[torch.randint(4, (N_SITES,))]
    seq = {tree[-1][0]: torch.multinomial(FREQS, N_SITES, replacement=True)}
    for parent, a, b in reversed(tree):
        for c in (a, b):
            p = torch.einsum("ij,sj,jk->sik", left, torch.exp(lam * (blen[c] * rate)[:, None]), right)
            rows = p[torch.arange(N_SITES), seq[parent]].clamp_min(0)
            seq[c] = torch.multinomial(rows, 1)[:, 0]
    aln = torch.stack([seq[i] for i in range(N_TAXA)])
    patterns, counts = torch.unique(aln, dim=1, return_counts=True)
    return torch.nn.functional.one_hot(patterns, 4).float(), counts.float()


def clades(tree):
    below = {i: frozenset([i]) for i in range(N_TAXA)}
    for p, a, b in tree:
        below[p] = below[a] | below[b]
    return {below[p] for p, _, _ in tree}


def main():
    true_tree = random_tree(N_TAXA)
    true_blen = 0.03 + 0.12 * torch.rand(2 * N_TAXA - 1)
    tips, counts = simulate(true_tree, true_blen, 3.0)
    print(f"{N_TAXA} taxa, {N_SITES} sites, {counts.numel()} patterns")

    tree, blen, kappa = true_tree, torch.full((2 * N_TAXA - 1,), 0.1), 2.0
    for _ in range(6):
        tree = nni(tree)

    def target(tree, blen, kappa):
        lam, left, right = eigen(kappa)
        ll = log_likelihood(tree, blen, tips, counts, lam, left, right, CATS, FREQS)
        return ll.item() - 10.0 * blen.sum().item() - 0.5 * math.log(kappa) ** 2

    with torch.no_grad():
        current, accepted, t0 = target(tree, blen, kappa), 0, time.time()
        for gen in range(60):
            for move in range(4):  # one generation = one cycle of moves
                new_tree, new_blen, new_kappa, hastings = tree, blen, kappa, 0.0
                if move < 2:
                    step = torch.exp(0.3 * torch.randn_like(blen) * (torch.rand_like(blen) < 0.15))
                    new_blen = blen * step
                    hastings = step.log().sum().item()
                elif move == 2:
                    f = math.exp(0.2 * rng.gauss(0, 1))
                    new_kappa, hastings = kappa * f, math.log(f)
                elif gen % 3 == 0:
                    new_tree = nni(tree)
                cand = target(new_tree, new_blen, new_kappa)
                if math.log(rng.random()) < cand - current + hastings:
                    tree, blen, kappa, current = new_tree, new_blen, new_kappa, cand
                    accepted += 1
            if gen % 10 == 9:
                hit = len(clades(tree) & clades(true_tree))
                print(
                    f"gen {gen + 1:3d}  logP {current:10.2f}  kappa {kappa:.2f}  length {blen.sum().item():.2f}"
                    f"  true clades {hit}/{N_TAXA - 1}  acc {accepted / (4 * gen + 4):.2f}"
                    f"  [{time.time() - t0:.1f}s]",
                    flush=True,
                )


if __name__ == "__main__":
    main()
