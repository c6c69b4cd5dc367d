from time import perf_counter

import torch


def bench(fn, *args):
    t0 = perf_counter()
    fn(*args)
    t1 = perf_counter()
    return t1 - t0


def layer(x, w):
    return torch.nn.functional.layer_norm(x @ w, (256,))


x, w = torch.randn(512, 256), torch.randn(256, 256)
quick = torch.compile(layer)
print("eager   ", bench(layer, x, w))
print("compiled", bench(quick, x, w))
for _ in range(20):
    quick(x, w)
