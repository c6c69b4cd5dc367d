"""Many constant-velocity Kalman filters at once over a series of measurements with gaps."""

import torch


def kalman(z, seen, F, H, Q, R):
    n, steps = z.shape[0], z.shape[1]
    x = torch.zeros(n, 4, 1)
    P = torch.eye(4).expand(n, 4, 4) * 10
    out = []
    for t in range(steps):
        x = F @ x
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T @ torch.linalg.inv(S)
        innovation = z[:, t, :, None] - H @ x
        gate = seen[:, t, None, None]
        x = torch.where(gate, x + K @ innovation, x)
        P = torch.where(gate, (torch.eye(4) - K @ H) @ P, P)
        out.append(x[..., 0])
    return torch.stack(out, 1)


torch.manual_seed(0)
F = torch.eye(4)
F[0, 2] = F[1, 3] = 0.1
H = torch.eye(4)[:2]
Q, R = torch.eye(4) * 0.01, torch.eye(2) * 0.5
z = torch.randn(1500, 16, 2).cumsum(1)
seen = torch.rand(1500, 16) > 0.15
fast = torch.compile(kalman)
for _ in range(25):
    track = fast(z, seen, F, H, Q, R)
print(track.std().item())
