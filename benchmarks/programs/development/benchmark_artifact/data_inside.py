import time

import torch


def energy(x, y):
    return torch.tanh(x * y).sum(-1)


compiled = torch.compile(energy)
compiled(torch.randn(1000, 1000), torch.randn(1000, 1000))
begin = time.perf_counter()
for _ in range(20):
    x = torch.randn(1000, 1000)
    y = torch.randn(1000, 1000)
    compiled(x, y)
elapsed = time.perf_counter() - begin
print(f"{elapsed / 20 * 1e3:.2f} ms per call")
