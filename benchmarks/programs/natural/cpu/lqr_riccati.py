"""Finite-horizon LQR gains for many systems and a rollout."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def lqr(A, B, Q, R, x0, horizon=8):
    P = Q
    gains = []
    for _ in range(horizon):
        BtP = B.transpose(-1, -2) @ P
        K = torch.linalg.solve(R + BtP @ B, BtP @ A)
        P = Q + A.transpose(-1, -2) @ P @ (A - B @ K)
        P = 0.5 * (P + P.transpose(-1, -2))
        gains.append(K)
    x, cost = x0, 0.0
    for K in reversed(gains):
        u = -(K @ x[..., None])
        cost = cost + (x[..., None, :] @ Q @ x[..., None]).flatten() + (u.transpose(-1, -2) @ R @ u).flatten()
        x = (A @ x[..., None] + B @ u).squeeze(-1)
    return x, cost


def build(device, compiled):
    torch.manual_seed(0)
    n = pick(1000, 4)
    A = torch.eye(8, device=device) + 0.05 * torch.randn(n, 8, 8, device=device)
    B = torch.randn(n, 8, 3, device=device) * 0.3
    Q, R, x0 = (
        torch.eye(8, device=device),
        0.1 * torch.eye(3, device=device),
        torch.randn(n, 8, device=device),
    )
    run = torch.compile(lqr, backend=BACKEND) if compiled else lqr

    def step():
        return run(A, B, Q, R, x0)[1]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
