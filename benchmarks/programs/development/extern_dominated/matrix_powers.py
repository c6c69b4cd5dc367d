import torch


@torch.compile
def markov(p, steps: int = 6):
    for _ in range(steps):
        p = p @ p
    return p


p = torch.rand(768, 768) / 384
with torch.no_grad():
    for _ in range(15):
        markov(p)
