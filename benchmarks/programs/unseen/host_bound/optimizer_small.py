import torch

torch.manual_seed(0)
w = torch.randn(20, 20)
g = torch.randn(20, 20)
m = torch.zeros(20, 20)


@torch.compile
def update(w, g, m):
    m = 0.9 * m + g
    return (w - 0.1 * m, m)


for _ in range(1000):
    w, m = update(w, g, m)
