"""Mass spectrometry: scores query spectra against a library by weighted histogram intersection."""

import torch

dev = "cuda"
torch.manual_seed(0)
bins = 128
mz = torch.linspace(50, 1200, bins, device=dev)
queries = torch.rand(512, bins, device=dev) ** 4
library = torch.rand(4096, bins, device=dev) ** 4
mass_q = 200 + 800 * torch.rand(512, device=dev)
mass_l = 200 + 800 * torch.rand(4096, device=dev)


def weighted(spec):
    w = spec**0.53 * mz**1.3
    return w / w.sum(-1, keepdim=True)


def match(q, lib, mass_q, mass_l):
    a, b = weighted(q), weighted(lib)
    score = torch.minimum(a[:, None, :], b[None, :, :]).sum(-1)
    near = torch.exp(-(((mass_q[:, None] - mass_l[None]) / 25.0) ** 2))
    return torch.topk(score * (0.5 + 0.5 * near), 10, dim=1)


fast = torch.compile(match)
with torch.no_grad():
    for _ in range(50):
        best, which = fast(queries, library, mass_q, mass_l)
print(best.mean().item())
