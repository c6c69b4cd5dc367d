"""Bootstrap confidence intervals for the difference of two clinical risk scores:
ROC AUC, partial AUC (FPR < 0.1) and sensitivity at 90 % specificity."""

import os
import time

import torch

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"
PATIENTS = 500 if SMOKE else 40_000
REPLICATES = 64 if SMOKE else 10_240
CHUNK = 16 if SMOKE else 256


def cohort(n, prevalence=0.08, seed=11):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=g) < prevalence).float()
    latent = torch.randn(n, generator=g) + 1.2 * y
    old = torch.sigmoid(0.7 * latent + 0.7 * torch.randn(n, generator=g))
    new = torch.sigmoid(0.8 * latent + 0.6 * torch.randn(n, generator=g))
    return y.to(DEVICE), old.to(DEVICE), new.to(DEVICE)


def roc_statistics(scores, labels):
    """scores, labels: (replicates, patients)"""
    order = scores.argsort(dim=1, descending=True)
    y = labels.gather(1, order)
    tp = y.cumsum(1)
    fp = (1 - y).cumsum(1)
    tpr = tp / tp[:, -1:]
    fpr = fp / fp[:, -1:]
    step = torch.diff(fpr, dim=1, prepend=torch.zeros_like(fpr[:, :1]))
    auc = (step * tpr).sum(1)
    pauc = (step * tpr * (fpr <= 0.1)).sum(1) / 0.1
    sens90 = torch.where(fpr <= 0.1, tpr, 0.0).amax(1)
    return torch.stack([auc, pauc, sens90], 1)


@torch.compile
def bootstrap_chunk(y, old, new, idx):
    yb = y[idx]
    a = roc_statistics(old[idx], yb)
    b = roc_statistics(new[idx], yb)
    return b, b - a


def main():
    y, old, new = cohort(PATIENTS)
    torch.manual_seed(5)
    stats, diffs, times = [], [], []
    for start in range(0, REPLICATES, CHUNK):
        t0 = time.perf_counter()
        idx = torch.randint(PATIENTS, (CHUNK, PATIENTS), device=DEVICE)
        s, d = bootstrap_chunk(y, old, new, idx)
        stats.append(s.cpu())
        diffs.append(d.cpu())
        times.append(time.perf_counter() - t0)
    stats, diffs = torch.cat(stats), torch.cat(diffs)
    q = torch.tensor([0.025, 0.975])
    for i, name in enumerate(["AUC", "pAUC(0.1)", "sens@90spec"]):
        lo, hi = torch.quantile(stats[:, i], q).tolist()
        dlo, dhi = torch.quantile(diffs[:, i], q).tolist()
        p = 2 * min((diffs[:, i] <= 0).float().mean().item(), (diffs[:, i] >= 0).float().mean().item())
        print(
            f"{name:12s} new {stats[:, i].mean():.4f} [{lo:.4f}, {hi:.4f}]  "
            f"diff {diffs[:, i].mean():+.4f} [{dlo:+.4f}, {dhi:+.4f}] p={min(p, 1):.4f}"
        )
    times.sort()
    print(f"{CHUNK} replicates in {times[len(times) // 2] * 1e3:.2f} ms (median)")


if __name__ == "__main__":
    main()
