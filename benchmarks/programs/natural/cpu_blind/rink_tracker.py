"""
Ice hockey player/puck tracking: multi-hypothesis Kalman bank.

Three ceiling cameras give 3-D detections.  Every detection spawns association
hypotheses; each hypothesis is a constant-acceleration-noise Kalman filter on
(x, y, z, vx, vy, vz).  After each frame the unlikely ones are pruned, so the
number of hypotheses varies from frame to frame.
"""

import math
import time

import torch

torch.manual_seed(3)

DT = 1 / 30.0
N_START = 9000
FRAMES = 26
LOG2PI = math.log(2 * math.pi)


class RinkModel:
    def __init__(self, sigma_a=4.0, sigma_det=0.12):
        eye3 = torch.eye(3)
        self.F = torch.eye(6)
        self.F[:3, 3:] = DT * eye3
        g = torch.cat([0.5 * DT * DT * eye3, DT * eye3])
        self.Q = sigma_a**2 * (g @ g.T) + 1e-6 * torch.eye(6)
        self.H = torch.cat([eye3, torch.zeros(3, 3)], dim=1)
        # the cameras look down: height is known less well than the plane
        self.R = sigma_det**2 * torch.diag(torch.tensor([1.0, 1.0, 4.0]))
        self.I = torch.eye(6)

    def advance(self, x, P, z):
        """predict + update of all hypotheses. x (n,6), P (n,6,6), z (n,3)"""
        x = x @ self.F.T
        P = self.F @ P @ self.F.T + self.Q

        innov = z - x @ self.H.T
        S = self.H @ P @ self.H.T + self.R
        S_inv = torch.linalg.inv(S)
        K = P @ self.H.T @ S_inv

        x = x + (K @ innov.unsqueeze(-1)).squeeze(-1)
        IKH = self.I - K @ self.H
        # Joseph form, stays symmetric over long shifts
        P = IKH @ P @ IKH.transpose(-1, -2) + K @ self.R @ K.transpose(-1, -2)

        maha = (innov.unsqueeze(-2) @ S_inv @ innov.unsqueeze(-1)).squeeze(-1).squeeze(-1)
        loglik = -0.5 * (maha + torch.logdet(S) + 3 * LOG2PI)
        return x, P, loglik


class Shift:
    """synthetic play: skaters on curved paths, detections with clutter"""

    def __init__(self, n_skaters=12):
        self.phase = torch.rand(n_skaters) * 6.28
        self.speed = 0.3 + 0.5 * torch.rand(n_skaters)
        self.radius = 4 + 9 * torch.rand(n_skaters)

    def truth(self, frame):
        a = self.phase + self.speed * frame * DT
        return torch.stack(
            [self.radius * torch.cos(a), self.radius * torch.sin(a), torch.full_like(a, 1.0)], dim=1
        )


def detections(truth, owner):
    z = truth[owner] + 0.12 * torch.randn(owner.numel(), 3)
    clutter = torch.rand(owner.numel()) < 0.1
    z[clutter] += 1.5 * torch.randn(int(clutter.sum()), 3)
    return z


def main():
    model = RinkModel()
    shift = Shift()
    advance = torch.compile(model.advance, dynamic=True)

    owner = torch.randint(0, 12, (N_START,))
    pos = shift.truth(0)[owner]
    x = torch.cat([pos + 0.3 * torch.randn_like(pos), torch.zeros(N_START, 3)], dim=1)
    P = torch.diag(torch.tensor([0.2, 0.2, 0.2, 9.0, 9.0, 1.0])).repeat(N_START, 1, 1)
    score = torch.zeros(N_START)

    for f in range(1, FRAMES + 1):
        z = detections(shift.truth(f), owner)
        t0 = time.perf_counter()
        x, P, ll = advance(x, P, z)
        dt = time.perf_counter() - t0
        score = 0.8 * score + ll
        # prune the worst 3 % and clone the best few
        n = score.numel()
        keep = score.topk(int(n * 0.97)).indices
        extra = keep[: int(torch.randint(100, 380, ()).item())]
        sel = torch.cat([keep, extra])
        x, P, score, owner = x[sel], P[sel], score[sel], owner[sel]
        print(f"frame {f:3d}  {n:6d} hypotheses  {dt * 1e3:8.2f} ms")

    err = (x[:, :2] - shift.truth(FRAMES)[owner][:, :2]).norm(dim=1).median()
    print(f"median plan-view error {err:.3f} m")


if __name__ == "__main__":
    main()
