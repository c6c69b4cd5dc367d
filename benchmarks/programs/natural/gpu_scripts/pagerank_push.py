"""Personalised page rank of a few seeds over an edge list, ten pushes."""

import torch

dev = "cuda"
N, E, S = 200_000, 3_000_000, 8
src, dst = (
    torch.randint(0, N, (E,), device=dev),
    (torch.randint(0, N, (E,), device=dev).float() ** 1.3 % N).long(),
)
deg = torch.bincount(src, minlength=N).clamp(1).float()
seed = torch.zeros(N, S, device=dev)
seed[torch.arange(S, device=dev) * 1000, torch.arange(S, device=dev)] = 1


def rank(src, dst, deg, seed):
    p = seed
    for _ in range(10):
        flow = (p / deg[:, None])[src]
        nxt = torch.zeros_like(p).index_add_(0, dst, flow)
        p = 0.85 * nxt + 0.15 * seed
        p = p / p.sum(0)
    return p, (p - seed).abs().sum(0)


fast = torch.compile(rank)
with torch.no_grad():
    for _ in range(30):
        p, d = fast(src, dst, deg, seed)
print(d.tolist())
