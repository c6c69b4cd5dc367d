"""Histogram gradient boosting in plain torch, for tables that are already tensors.

Binary log-loss, level-wise trees, quantile binning. Written so that it can later move to a GPU unchanged.
"""

import math
import time
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


@dataclass
class Params:
    n_trees: int = 60
    depth: int = 5
    lr: float = 0.2
    n_bins: int = 64
    l2: float = 1.0
    min_hess: float = 5.0
    row_sample: float = 0.8


@dataclass
class Tree:
    feature: list[torch.Tensor] = field(default_factory=list)  # one entry per level
    threshold: list[torch.Tensor] = field(default_factory=list)
    value: torch.Tensor = None


def make_table(n, n_feat, seed=0):
    """Loan-default flavoured toy data with interactions and irrelevant columns."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, n_feat, generator=g)
    x[:, 3] = x[:, 0] * 0.6 + x[:, 3] * 0.8
    x[:, 5] = x[:, 5].exp()
    score = (
        1.2 * torch.sin(2 * x[:, 0])
        + x[:, 1] * (x[:, 2] > 0.3).float()
        - 0.5 * x[:, 3] ** 2
        + 0.6 * torch.log1p(x[:, 5]) * x[:, 6]
        + 0.3 * torch.randn(n, generator=g)
    )
    y = (torch.rand(n, generator=g) < torch.sigmoid(1.5 * score)).float()
    return x, y


def fit_bins(x, n_bins):
    q = torch.linspace(0, 1, n_bins + 1)[1:-1]
    return torch.quantile(x[:50_000], q, dim=0).t().contiguous()


def apply_bins(x, edges):
    return torch.stack([torch.bucketize(x[:, f].contiguous(), edges[f]) for f in range(x.shape[1])], 1)


@torch.compile
def gradients(margin, y, keep):
    p = torch.sigmoid(margin)
    return (p - y) * keep, (p * (1 - p)).clamp_min(1e-6) * keep


@torch.compile
def histogram(bins, node, grad, hess, n_nodes: int, n_bins: int):
    """Sums of gradient and hessian for every (node, feature, bin)."""
    n, f = bins.shape
    cols = torch.arange(f)
    flat = ((node[:, None] * f + cols) * n_bins + bins).reshape(-1)
    size = n_nodes * f * n_bins
    g = torch.zeros(size).index_add(0, flat, grad[:, None].expand(n, f).reshape(-1))
    h = torch.zeros(size).index_add(0, flat, hess[:, None].expand(n, f).reshape(-1))
    return g.view(n_nodes, f, n_bins), h.view(n_nodes, f, n_bins)


@torch.compile
def best_split(g, h, l2: float, min_hess: float):
    gl, hl = g.cumsum(-1), h.cumsum(-1)
    gt, ht = gl[..., -1:], hl[..., -1:]
    gr, hr = gt - gl, ht - hl
    gain = gl**2 / (hl + l2) + gr**2 / (hr + l2) - gt**2 / (ht + l2)
    gain = torch.where((hl < min_hess) | (hr < min_hess), -math.inf, gain)
    best, at = gain.flatten(1).max(1)
    return best, at


@torch.compile
def route(bins, node, feature, threshold):
    b = bins.gather(1, feature[node][:, None]).squeeze(1)
    return 2 * node + (b > threshold[node]).long()


class Booster:
    def __init__(self, params: Params):
        self.p = params
        self.trees: list[Tree] = []

    def grow(self, bins, grad, hess):
        p, tree = self.p, Tree()
        node = torch.zeros(bins.shape[0], dtype=torch.long)
        for level in range(p.depth):
            g, h = histogram(bins, node, grad, hess, 2**level, p.n_bins)
            best, at = best_split(g, h, p.l2, p.min_hess)
            feature = torch.div(at, p.n_bins, rounding_mode="floor")
            # a node without a useful split sends everything to the left
            threshold = torch.where(best > 0, at % p.n_bins, p.n_bins)
            tree.feature.append(feature)
            tree.threshold.append(threshold)
            node = route(bins, node, feature, threshold)
        leaves = 2**p.depth
        gs = torch.zeros(leaves).index_add(0, node, grad)
        hs = torch.zeros(leaves).index_add(0, node, hess)
        tree.value = -p.lr * gs / (hs + p.l2)
        return tree, tree.value[node]

    def predict_tree(self, tree, bins):
        node = torch.zeros(bins.shape[0], dtype=torch.long)
        for feature, threshold in zip(tree.feature, tree.threshold):
            node = route(bins, node, feature, threshold)
        return tree.value[node]

    def fit(self, x, y, x_val, y_val):
        p = self.p
        gen = torch.Generator().manual_seed(17)
        edges = fit_bins(x, p.n_bins)
        bins, bins_val = apply_bins(x, edges), apply_bins(x_val, edges)
        base = torch.logit(y.mean())
        margin, margin_val = base.expand(len(y)).clone(), base.expand(len(y_val)).clone()
        t0 = time.time()
        for k in range(p.n_trees):
            keep = (torch.rand(len(y), generator=gen) < p.row_sample).float()
            grad, hess = gradients(margin, y, keep)
            tree, delta = self.grow(bins, grad, hess)
            margin += delta
            margin_val += self.predict_tree(tree, bins_val)
            self.trees.append(tree)
            if k % 10 == 0 or k == p.n_trees - 1:
                tr = F.binary_cross_entropy_with_logits(margin, y).item()
                va = F.binary_cross_entropy_with_logits(margin_val, y_val).item()
                acc = ((margin_val > 0).float() == y_val).float().mean().item()
                print(f"tree {k:3d}  train {tr:.4f}  valid {va:.4f}  acc {acc:.3f}  {time.time() - t0:.1f}s")


if __name__ == "__main__":
    X, Y = make_table(120_000, 16)
    cut = 90_000
    Booster(Params()).fit(X[:cut], Y[:cut], X[cut:], Y[cut:])
