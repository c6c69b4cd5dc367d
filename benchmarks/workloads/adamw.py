"""A compiled AdamW step over many small parameters: foreach kernels, which mutate in place."""

import torch

torch.manual_seed(0)
parameters = [torch.randn(64, n, device="cuda", requires_grad=True) for n in (8, 16, 32, 64, 128)]
for parameter in parameters:
    parameter.grad = torch.randn_like(parameter)
optimizer = torch.optim.AdamW(parameters, lr=torch.tensor(1e-3, device="cuda"), foreach=True, capturable=True)
step = torch.compile(optimizer.step)
for _ in range(3):
    step()
