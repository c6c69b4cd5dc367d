import torch


@torch.compile
def sinkhorn(scores):
    p = torch.exp(scores)
    for _ in range(5):
        p = p / p.sum(1, keepdim=True)
        p = p / p.sum(0, keepdim=True)
    return p


scores = torch.randn(2000, 2000)
for _ in range(20):
    sinkhorn(scores)
