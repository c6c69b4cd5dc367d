"""MCMC over phylogenetic trees with Felsenstein pruning on the GPU.

GTR+Gamma likelihood of a DNA alignment; proposals swap leaves of the tree.
"""

import math
import os
import random
import time

import torch

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

LEAVES = 12
SITES = max(2000, int(400_000 * SCALE))
CATS = 4
STEPS = 60

random.seed(2)
torch.manual_seed(2)


def sync():
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def gtr_eigen():
    pi = torch.tensor([0.3, 0.2, 0.22, 0.28], dtype=torch.float64)
    ex = torch.tensor(
        [[0, 1.0, 3.5, 0.8], [1.0, 0, 0.9, 4.1], [3.5, 0.9, 0, 1.0], [0.8, 4.1, 1.0, 0]], dtype=torch.float64
    )
    q = ex * pi
    q = q - torch.diag(q.sum(1))
    q = q / -(pi * q.diagonal()).sum()
    root = pi.sqrt()
    lam, u = torch.linalg.eigh(root[:, None] * q / root[None, :])
    left, right = u / root[:, None], u.T * root[None, :]
    return [t.float().to(device) for t in (pi, lam, left, right)]


def random_tree():
    """Post-order list of (left child, right child); internal nodes follow the leaves."""
    free, tree = list(range(LEAVES)), []
    while len(free) > 1:
        a = free.pop(random.randrange(len(free)))
        b = free.pop(random.randrange(len(free)))
        tree.append((a, b))
        free.append(LEAVES + len(tree) - 1)
    return tree


def swap_leaves(tree):
    a, b = random.sample(range(LEAVES), 2)
    m = {a: b, b: a}
    return [(m.get(x, x), m.get(y, y)) for x, y in tree]


@torch.compile
def log_likelihood(tips, tree, lengths, rates, pi, lam, left, right):
    t = lengths[:, None] * rates[None, :]
    p = torch.einsum("ik,eck,kj->ecij", left, torch.exp(t[..., None] * lam), right).clamp_min(0)
    partial = [tips[i].unsqueeze(0).expand(CATS, -1, -1) for i in range(LEAVES)]
    log_scale = torch.zeros(tips.shape[1], device=tips.device)
    for a, b in tree:
        x = partial[a] @ p[a].transpose(1, 2)
        y = partial[b] @ p[b].transpose(1, 2)
        z = x * y
        biggest = z.amax(dim=(0, 2)).clamp_min(1e-30)
        log_scale = log_scale + biggest.log()
        partial.append(z / biggest[None, :, None])
    site = (partial[-1] @ pi).mean(0)
    return (site.log() + log_scale).sum(dtype=torch.float64)


def simulate_alignment():
    ancestor = torch.randint(0, 4, (SITES,), device=device)
    rows = []
    for i in range(LEAVES):
        mutate = torch.rand(SITES, device=device) < 0.05 + 0.02 * i
        rows.append(torch.where(mutate, torch.randint_like(ancestor, 4), ancestor))
    return torch.nn.functional.one_hot(torch.stack(rows), 4).float()


@torch.no_grad()
def main():
    tips = simulate_alignment()
    model = gtr_eigen()
    rates = torch.tensor([0.137, 0.477, 1.0, 2.386], device=device)
    tree = random_tree()
    lengths = torch.full((2 * LEAVES - 1,), 0.1, device=device)
    current = log_likelihood(tips, tree, lengths, rates, *model).item()
    accepted, times = 0, []
    for step in range(STEPS):
        sync()
        t0 = time.perf_counter()
        if step % 3 == 2:
            new_tree, new_lengths = tree, lengths * torch.exp(0.1 * torch.randn_like(lengths))
        else:
            new_tree, new_lengths = swap_leaves(tree), lengths
        proposed = log_likelihood(tips, new_tree, new_lengths, rates, *model).item()
        if math.log(random.random() + 1e-12) < proposed - current:
            tree, lengths, current = new_tree, new_lengths, proposed
            accepted += 1
        sync()
        times.append(time.perf_counter() - t0)
        if step % 15 == 0:
            print(f"step {step:3d}  log likelihood {current:.1f}  accepted {accepted}")
    tail = times[len(times) // 2 :]
    print(f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms")


if __name__ == "__main__":
    main()
