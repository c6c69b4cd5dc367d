"""Quantile normalisation of gene expression: every sample gets the mean distribution, ties averaged by rank."""

import torch

dev = "cuda"
expr = torch.rand(2048, 20000, device=dev).log1p()


def normalise(x):
    order = x.argsort(1)
    ranks = order.argsort(1)
    ref = x.sort(1).values.mean(0)
    y = ref[ranks]
    z = (y - y.mean(0)) / (y.std(0) + 1e-6)
    return z.clamp(-4, 4)


fast = torch.compile(normalise)
with torch.no_grad():
    for _ in range(30):
        z = fast(expr)
print(z.std().item())
