"""Robust linear regression by iteratively reweighted least squares on many groups."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def irls(X, y, rounds=5, c=1.345):
    beta = torch.zeros(X.shape[0], X.shape[2], device=X.device)
    eye = 1e-6 * torch.eye(X.shape[2], device=X.device)
    for _ in range(rounds):
        r = y - (X @ beta[..., None]).squeeze(-1)
        s = r.abs().median(1, keepdim=True).values / 0.6745 + 1e-9
        u = (r / s).abs()
        w = torch.where(u <= c, torch.ones_like(u), c / u)
        Xw = X * w[..., None]
        beta = torch.linalg.solve(
            Xw.transpose(1, 2) @ X + eye, (Xw.transpose(1, 2) @ y[..., None]).squeeze(-1)
        )
    return beta, s


def build(device, compiled):
    torch.manual_seed(0)
    groups, n = pick(50, 3), pick(1000, 40)
    X = torch.randn(groups, n, 6, device=device)
    y = X.sum(-1) + torch.distributions.StudentT(2.0).sample((groups, n)).to(device) * 0.3
    run = torch.compile(irls, backend=BACKEND) if compiled else irls

    def step():
        return run(X, y)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
