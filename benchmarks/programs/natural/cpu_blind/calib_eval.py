"""Nightly evaluation of a click-free risk classifier: bootstrap confidence
intervals of AUROC, average precision, Brier score and calibration error,
overall and per site.
"""

import time
from dataclasses import dataclass

import torch

torch.manual_seed(5)

N, SITES, BINS, BOOT, CHUNK = 40000, 12, 20, 800, 8


@dataclass
class EvalSet:
    score: torch.Tensor
    label: torch.Tensor
    site: torch.Tensor


def load():
    site = torch.randint(0, SITES, (N,))
    shift = torch.randn(SITES)[site] * 0.3
    z = torch.randn(N) * 1.3 - 1.5 + shift
    label = (torch.rand(N) < torch.sigmoid(z)).float()
    score = torch.sigmoid(1.3 * z + 0.5 * torch.randn(N))
    # the model is served in half precision: a lot of ties
    return EvalSet(score.half().float(), label, site)


def auroc_ap(s, y):
    """s, y: (R, N). Threshold sweep from the highest score down."""
    s, order = torch.sort(s, dim=1, descending=True)
    y = y.gather(1, order)
    tp = torch.cumsum(y, 1)
    fp = torch.cumsum(1 - y, 1)
    P, Q = tp[:, -1:], fp[:, -1:]
    tpr, fpr = tp / P, fp / Q
    auc = torch.trapezoid(tpr, fpr, dim=1)
    precision = tp / (tp + fp)
    d_rec = torch.diff(tpr, dim=1, prepend=torch.zeros_like(P))
    ap = (precision * d_rec).sum(1)
    return auc, ap


def ece(s, y):
    """Expected and maximum calibration error, equal-width bins."""
    r = s.size(0)
    b = (s * BINS).long().clamp(max=BINS - 1)
    zero = torch.zeros(r, BINS)
    cnt = zero.scatter_add(1, b, torch.ones_like(s))
    conf = zero.scatter_add(1, b, s)
    acc = zero.scatter_add(1, b, y)
    gap = (conf - acc).abs()
    e = gap.sum(1) / s.size(1)
    worst = (gap / cnt.clamp(min=1)).masked_fill(cnt < 50, 0).amax(1)
    return e, worst


def site_brier(s, y, site):
    r = s.size(0)
    err = (s - y) ** 2
    tot = torch.zeros(r, SITES).scatter_add(1, site, err)
    cnt = torch.zeros(r, SITES).scatter_add(1, site, torch.ones_like(err))
    return tot / cnt.clamp(min=1)


@torch.compile
def replicate(score, label, site):
    """CHUNK bootstrap replicates in one go."""
    idx = torch.randint(0, score.numel(), (CHUNK, score.numel()))
    s, y, g = score[idx], label[idx], site[idx]
    auc, ap = auroc_ap(s, y)
    e, worst = ece(s, y)
    nll = -(y * s.clamp(1e-6).log() + (1 - y) * (1 - s).clamp(1e-6).log()).mean(1)
    brier = site_brier(s, y, g)
    return torch.stack([auc, ap, e, worst, nll], 1), brier


def interval(x, level=0.95):
    q = torch.tensor([(1 - level) / 2, 0.5, (1 + level) / 2])
    return torch.quantile(x, q, dim=0)


def main():
    data = load()
    t0 = time.time()
    metrics, briers = [], []
    for done in range(0, BOOT, CHUNK):
        m, b = replicate(data.score, data.label, data.site)
        metrics.append(m)
        briers.append(b)
        if (done // CHUNK) % 20 == 19:
            print(f"{done + CHUNK}/{BOOT} replicates, {time.time() - t0:.1f}s")
    lo, mid, hi = interval(torch.cat(metrics))
    for name, a, b, c in zip(["auroc", "ap", "ece", "mce", "nll"], lo, mid, hi):
        print(f"{name:6s} {b:.4f}  [{a:.4f}, {c:.4f}]")
    lo, mid, hi = interval(torch.cat(briers))
    worst = int(mid.argmax())
    print(f"worst site {worst}: brier {mid[worst]:.4f} [{lo[worst]:.4f}, {hi[worst]:.4f}]")


if __name__ == "__main__":
    main()
