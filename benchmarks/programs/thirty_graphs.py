"""Thirty compiled functions of a few operators each, as a program with many graphs has them."""

import torch

FUNCTIONS = [
    lambda x: torch.sin(x) + 1,
    lambda x: torch.cos(x) * 2,
    lambda x: torch.tanh(x) - x,
    lambda x: torch.relu(x) * x,
    lambda x: torch.exp(-x.abs()),
    lambda x: torch.sigmoid(x) + x,
    lambda x: x.sum(0),
    lambda x: x.sum(1),
    lambda x: x.mean(1) + 1,
    lambda x: x.amax(0),
    lambda x: x.amin(1),
    lambda x: torch.softmax(x, 1),
    lambda x: torch.softmax(x, 0),
    lambda x: torch.log_softmax(x, 1),
    lambda x: x.std(1),
    lambda x: x.var(0),
    lambda x: torch.nn.functional.layer_norm(x, (256,)),
    lambda x: torch.nn.functional.gelu(x),
    lambda x: torch.nn.functional.silu(x) * 3,
    lambda x: x @ x,
    lambda x: torch.relu(x @ x) + 1,
    lambda x: x @ x.t() + x,
    lambda x: x.t().contiguous() * 2,
    lambda x: torch.cat([x, x + 1], 1),
    lambda x: x[::2] + x[1::2],
    lambda x: x.flip(0) - x,
    lambda x: x.cumsum(1),
    lambda x: torch.where(x > 0, x, x * 0.1),
    lambda x: x.clamp(-1, 1).square(),
    lambda x: (x - x.mean(1, keepdim=True)).norm(dim=1),
]

torch.manual_seed(0)
x = torch.randn(256, 256)
with torch.no_grad():
    compiled = [torch.compile(function) for function in FUNCTIONS]
    for _ in range(4):
        for function in compiled:
            function(x)
