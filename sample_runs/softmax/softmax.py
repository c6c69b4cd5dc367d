"""A matrix product followed by a softmax: the classic example that compiling makes slower.

At 100x100 the kernels are shorter than the work of launching them, so there is nothing to win.
"""

import statistics
import time

import torch


def matmul_softmax(x, y):
    z = torch.matmul(x, y)
    return torch.nn.functional.softmax(z, dim=1)


def microseconds(function, *args, rounds=30, calls=200):
    """Median time of a call by the host's clock; the device is waited for once a round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function(*args)
        if args[0].is_cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
compiled = torch.compile(matmul_softmax)
x = torch.randn(100, 100, device=device)
y = torch.randn(100, 100, device=device)
for _ in range(3):
    compiled(x, y)
eager_us, compiled_us = (microseconds(function, x, y) for function in (matmul_softmax, compiled))
print(f"eager {eager_us:.1f} us, compiled {compiled_us:.1f} us a call: {eager_us / compiled_us:.2f}x")
