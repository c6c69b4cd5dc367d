import torch

torch.manual_seed(0)


@torch.compile
def f(w, i):
    out = torch.zeros(256)
    return out.index_put((i,), w.tanh(), accumulate=True)


i = torch.randint(0, 256, (1000000,))
w = torch.randn(1000000)
for _ in range(40):
    f(w, i)
