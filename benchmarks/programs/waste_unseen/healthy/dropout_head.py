"""A head of two layers with dropout between: noise of a small tensor beside large products."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
TWIN_CONFIG = {"fallback_random": True}


def inputs():
    return torch.randn(512, 2048), torch.randn(1024, 2048), torch.randn(1000, 1024)


def step(x, first, second):
    return F.linear(F.dropout(F.relu(F.linear(x, first)), 0.1, True), second)


twin = step


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
