"""Gaussian-process marginal likelihood with an RBF-plus-periodic kernel, gradients."""

import math
import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class GP(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dims))
        self.log_var, self.log_noise = nn.Parameter(torch.tensor(0.0)), nn.Parameter(torch.tensor(-2.0))
        self.log_period = nn.Parameter(torch.tensor(0.5))

    def kernel(self, a, b):
        d = (a[:, None] - b[None]) / self.log_scale.exp()
        rbf = torch.exp(-0.5 * (d**2).sum(-1))
        phase = math.pi * (a[:, None, 0] - b[None, :, 0]).abs() / self.log_period.exp()
        periodic = torch.exp(-2 * torch.sin(phase) ** 2)
        return self.log_var.exp() * (rbf + 0.3 * periodic)

    def forward(self, x, y):
        n = x.shape[0]
        k = self.kernel(x, x) + (self.log_noise.exp() + 1e-4) * torch.eye(n, device=x.device)
        chol = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], chol).squeeze(1)
        return 0.5 * y @ alpha + chol.diagonal().log().sum() + 0.5 * n * math.log(2 * math.pi)


def build(device, compiled):
    torch.manual_seed(0)
    n = pick(2048, 24)
    model = GP(8).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    nll = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(n, 8, device=device)
    y = torch.sin(3 * x[:, 0]) + 0.1 * torch.randn(n, device=device)

    def step():
        optimizer.zero_grad()
        loss = nll(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
