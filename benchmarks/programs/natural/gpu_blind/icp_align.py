"""Aligns a lidar scan to a map with point-to-point ICP until the error settles."""

import torch

dev = "cuda"
torch.manual_seed(0)
world = torch.rand(8192, 3, device=dev) * torch.tensor([20.0, 20.0, 3.0], device=dev)
a = torch.tensor(0.06)
rot = torch.tensor([[a.cos(), -a.sin(), 0], [a.sin(), a.cos(), 0], [0, 0, 1]], device=dev)
scan = (world[:4096] + 0.02 * torch.randn(4096, 3, device=dev)) @ rot.T + torch.tensor(
    [0.3, -0.2, 0.05], device=dev
)


def icp(src, dst, max_iter=12, tol=1e-4):
    R = torch.eye(3, device=src.device)
    t = torch.zeros(3, device=src.device)
    previous = float("inf")
    for _ in range(max_iter):
        moved = src @ R.T + t
        dist, nearest = torch.cdist(moved, dst).min(1)
        w = (dist < 3 * dist.mean()).float()[:, None]
        match = dst[nearest]
        ms, md = (moved * w).sum(0) / w.sum(), (match * w).sum(0) / w.sum()
        U, _, Vt = torch.linalg.svd(((moved - ms) * w).T @ (match - md))
        dR = Vt.T @ U.T
        R, t = dR @ R, dR @ (t - ms) + md
        error = (dist * w[:, 0]).mean().item()
        if abs(previous - error) < tol:
            break
        previous = error
    return R, t, error


fast = torch.compile(icp)
with torch.no_grad():
    for _ in range(40):
        R, t, error = fast(scan, world)
print(error, t.tolist())
