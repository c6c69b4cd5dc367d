"""Bayesian phylogenetics toy: MCMC over trees with an HKY85+Gamma4 model.

Felsenstein pruning is vectorised over rate categories and site patterns; the
sampler proposes branch-length multipliers and NNI topology moves.
"""

import math
import random

import torch

torch.set_default_dtype(torch.float64)

TAXA = 9
SITES = 4000
RATES = torch.tensor([0.1369, 0.4767, 1.0000, 2.3864])
STEPS = 900


def hky(kappa, pi):
    q = pi.repeat(4, 1).clone()
    for i, j in ((0, 2), (2, 0), (1, 3), (3, 1)):  # A<->G, C<->T
        q[i, j] *= kappa
    q.fill_diagonal_(0)
    q -= torch.diag(q.sum(1))
    q /= -(pi * q.diagonal()).sum()
    s = torch.sqrt(pi)
    lam, vec = torch.linalg.eigh(s[:, None] * q / s[None, :])
    return lam, vec / s[:, None], vec.T * s[None, :]


@torch.compile
def log_likelihood(children, blen, tips, lam, left, right, pi):
    """children: list of (node, a, b) in post-order; blen [nodes]; tips [taxa,4,sites]."""
    expo = torch.exp(lam * blen[:, None, None] * RATES[:, None])  # node, rate, eig
    pmat = (left * expo[:, :, None, :]) @ right  # node, rate, 4, 4
    partial = {i: tips[i].expand(4, -1, -1) for i in range(tips.shape[0])}
    log_scale = torch.zeros(tips.shape[-1])
    for node, a, b in children:
        p = (pmat[a] @ partial[a]) * (pmat[b] @ partial[b])
        m = p.amax(dim=(0, 1))
        partial[node] = p / m
        log_scale = log_scale + torch.log(m)
    root = partial[children[-1][0]]
    site = torch.einsum("s,rsk->k", pi, root) / 4.0
    return (torch.log(site) + log_scale).sum()


def random_tree(rng):
    """Coalescent-like random binary tree as {internal: [a, b]}."""
    tree, live, nxt = {}, list(range(TAXA)), TAXA
    while len(live) > 1:
        a, b = rng.sample(live, 2)
        live = [x for x in live if x not in (a, b)] + [nxt]
        tree[nxt] = [a, b]
        nxt += 1
    return tree


def post_order(tree, root):
    out = []

    def visit(n):
        if n in tree:
            for c in tree[n]:
                visit(c)
            out.append((n, *tree[n]))

    visit(root)
    return out


def nni(tree, root, rng):
    new = {k: list(v) for k, v in tree.items()}
    parent = rng.choice([n for n in new if any(c in new for c in new[n])])
    i = rng.choice([k for k in (0, 1) if new[parent][k] in new])
    child, j = new[parent][i], rng.randrange(2)
    new[parent][1 - i], new[child][j] = new[child][j], new[parent][1 - i]
    return new


def simulate(tree, root, blen, model, pi, gen):
    lam, left, right = model
    rate = RATES[torch.randint(0, 4, (SITES,), generator=gen)]
    seq = {root: torch.multinomial(pi, SITES, replacement=True, generator=gen)}
    for node, a, b in reversed(post_order(tree, root)):
        for c in (a, b):
            e = torch.exp(lam * blen[c] * rate[:, None])
            p = ((left[seq[node]] * e) @ right).clamp_min(0)
            seq[c] = torch.multinomial(p, 1, generator=gen)[:, 0]
    return torch.stack([torch.nn.functional.one_hot(seq[i], 4).T.to(torch.float64) for i in range(TAXA)])


def main():
    rng, gen = random.Random(5), torch.Generator().manual_seed(5)
    pi = torch.tensor([0.3, 0.2, 0.22, 0.28])
    model = hky(4.0, pi)
    root, nodes = 2 * TAXA - 2, 2 * TAXA - 1
    truth = random_tree(rng)
    true_len = 0.02 + 0.25 * torch.rand(nodes, generator=gen)
    tips = simulate(truth, root, true_len, model, pi, gen)

    tree, blen = random_tree(rng), torch.full((nodes,), 0.1)
    ll = float(log_likelihood(post_order(tree, root), blen, tips, *model, pi))
    acc = {"nni": 0, "len": 0}
    for it in range(STEPS):
        if rng.random() < 0.2:
            kind, t2, b2, hastings = "nni", nni(tree, root, rng), blen, 0.0
        else:
            kind, t2, b2 = "len", tree, blen.clone()
            hastings = 0.6 * (rng.random() - 0.5)
            b2[rng.randrange(nodes - 1)] *= math.exp(hastings)
        ll2 = float(log_likelihood(post_order(t2, root), b2, tips, *model, pi))
        prior = -10.0 * float(b2.sum() - blen.sum())
        if math.log(rng.random() + 1e-300) < ll2 - ll + prior + hastings:
            tree, blen, ll = t2, b2, ll2
            acc[kind] += 1
        if it % 300 == 299:
            print(f"iter {it + 1:5d}  lnL {ll:12.2f}  length {float(blen[:-1].sum()):.3f}  accepted {acc}")
    best = float(log_likelihood(post_order(truth, root), true_len, tips, *model, pi))
    print(f"lnL of the generating tree {best:.2f}")


if __name__ == "__main__":
    main()
