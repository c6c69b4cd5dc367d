"""Identify the stiffness profile and tendon offsets of a steerable catheter from tracked shapes."""

import torch
from torch import nn

torch.set_num_threads(2)


def hat(w):
    zero = torch.zeros_like(w[..., 0])
    return torch.stack(
        [
            torch.stack([zero, -w[..., 2], w[..., 1]], -1),
            torch.stack([w[..., 2], zero, -w[..., 0]], -1),
            torch.stack([-w[..., 1], w[..., 0], zero], -1),
        ],
        -2,
    )


def rodrigues(w):
    theta2 = (w * w).sum(-1, keepdim=True).unsqueeze(-1) + 1e-12
    theta = theta2.sqrt()
    k = hat(w)
    eye = torch.eye(3, dtype=w.dtype, device=w.device)
    return eye + torch.sin(theta) / theta * k + (1 - torch.cos(theta)) / theta2 * (k @ k)


class CatheterRod(nn.Module):
    """Piecewise constant-curvature rod driven by three tendons, with a torsional preload and tip weight."""

    def __init__(self, segments=6, length=0.12):
        super().__init__()
        self.segments = segments
        self.ds = length / segments
        self.log_bend = nn.Parameter(torch.full((segments,), -7.4))
        self.log_twist = nn.Parameter(torch.tensor(-7.0))
        self.radius = nn.Parameter(torch.full((3,), 1.5e-3))
        self.angle = nn.Parameter(torch.tensor([0.0, 2.1, 4.2]))
        self.tip_weight = nn.Parameter(torch.tensor(0.0))

    def forward(self, tension, twist):
        batch = tension.shape[0]
        mx = (tension * self.radius * torch.sin(self.angle)).sum(-1)
        my = -(tension * self.radius * torch.cos(self.angle)).sum(-1)
        rot = torch.eye(3).expand(batch, 3, 3)
        pos = torch.zeros(batch, 3)
        down = torch.tensor([0.0, 0.0, -1.0])
        points = []
        for i in range(self.segments):
            bend = torch.exp(self.log_bend[i])
            arm = (self.segments - i) * self.ds
            load = self.tip_weight * arm * torch.linalg.cross(rot[:, :, 2], down.expand(batch, 3))
            local = (rot.transpose(1, 2) @ load.unsqueeze(-1)).squeeze(-1)
            curvature = torch.stack(
                [
                    (mx + local[:, 0]) / bend,
                    (my + local[:, 1]) / bend,
                    twist / torch.exp(self.log_twist),
                ],
                -1,
            )
            mid = rot @ rodrigues(0.5 * self.ds * curvature)
            pos = pos + self.ds * mid[:, :, 2]
            rot = rot @ rodrigues(self.ds * curvature)
            points.append(pos)
        return torch.stack(points, 1)


def ground_truth():
    rod = CatheterRod()
    with torch.no_grad():
        s = torch.linspace(0, 1, rod.segments)
        rod.log_bend.copy_(-7.2 - 0.8 * s + 0.15 * torch.sin(6 * s))
        rod.log_twist.fill_(-7.3)
        rod.radius.copy_(torch.tensor([1.4e-3, 1.6e-3, 1.55e-3]))
        rod.angle.copy_(torch.tensor([0.05, 2.02, 4.25]))
        rod.tip_weight.fill_(0.02)
    return rod


def sample_commands(count):
    tension = 4.0 * torch.rand(count, 3)
    tension = tension - tension.min(dim=1, keepdim=True).values
    twist = 2e-3 * torch.randn(count)
    return tension, twist


def main():
    torch.manual_seed(4)
    truth = ground_truth()
    tension, twist = sample_commands(2048)
    with torch.no_grad():
        shapes = truth(tension, twist) + 3e-4 * torch.randn(2048, truth.segments, 3)

    rod = CatheterRod()
    rod.compile()
    optimiser = torch.optim.Adam(
        [
            {"params": [rod.log_bend, rod.log_twist], "lr": 2e-2},
            {"params": [rod.angle], "lr": 5e-3},
            {"params": [rod.radius], "lr": 5e-6},
            {"params": [rod.tip_weight], "lr": 1e-3},
        ]
    )
    batch = 256
    for epoch in range(40):
        order = torch.randperm(2048)
        for start in range(0, 2048, batch):
            idx = order[start : start + batch]
            optimiser.zero_grad()
            error = rod(tension[idx], twist[idx]) - shapes[idx]
            loss = 1e6 * error.square().sum(-1).mean()
            smooth = torch.diff(rod.log_bend, n=2).square().sum()
            (loss + 0.1 * smooth).backward()
            optimiser.step()
        if epoch % 13 == 0:
            print(f"epoch {epoch:2d}  rms shape error {loss.item() ** 0.5:.3f} mm")
    gap = (rod.log_bend - truth.log_bend).abs().mean()
    print(f"mean log-stiffness gap {gap.item():.3f}")
    print("tendon angles", [round(a, 3) for a in rod.angle.tolist()])


if __name__ == "__main__":
    main()
