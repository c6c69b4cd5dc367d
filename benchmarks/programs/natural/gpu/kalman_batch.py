"""Many small Kalman filters: predict, innovate, update with batched linear algebra."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def kalman(x, P, z, Fm, H, Q, R):
    for t in range(z.shape[0]):
        x = x @ Fm.T
        P = Fm @ P @ Fm.T + Q
        S = H @ P @ H.T + R
        K = torch.linalg.solve(S, H @ P).transpose(-1, -2)
        innovation = z[t] - x @ H.T
        x = x + (K @ innovation[..., None]).squeeze(-1)
        ident = torch.eye(P.shape[-1], device=P.device)
        A = ident - K @ H
        P = A @ P @ A.transpose(-1, -2) + K @ R @ K.transpose(-1, -2)
    mahalanobis = (innovation[:, None] @ torch.linalg.inv(S) @ innovation[..., None]).flatten()
    return x, P, mahalanobis


def build(device, compiled):
    torch.manual_seed(0)
    n, steps = pick(20_000, 8), 3
    dt = 0.1
    Fm = torch.eye(6, device=device)
    Fm[:3, 3:] = dt * torch.eye(3, device=device)
    H = torch.zeros(3, 6, device=device)
    H[:, :3] = torch.eye(3, device=device)
    Q, R = 0.01 * torch.eye(6, device=device), 0.1 * torch.eye(3, device=device)
    x, P = torch.zeros(n, 6, device=device), torch.eye(6, device=device).repeat(n, 1, 1)
    z = torch.randn(steps, n, 3, device=device)
    run = torch.compile(kalman, backend=BACKEND) if compiled else kalman

    def step():
        return run(x, P, z, Fm, H, Q, R)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
