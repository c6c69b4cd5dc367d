"""Gait forecaster trained with a soft-DTW shape loss and a bone-length penalty."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
JOINTS = 17
PAST = 24 if SMOKE else 96
FUTURE = 6 if SMOKE else 24
BATCH = 4 if SMOKE else 1024
CHANNELS = 16 if SMOKE else 384
STEPS = 6 if SMOKE else 250
BIG = 1e8
PARENT = [0, 0, 1, 2, 0, 4, 5, 0, 7, 8, 9, 8, 11, 12, 8, 14, 15]


def soft_min(a, b, c, gamma):
    stacked = torch.stack([a, b, c], dim=-1)
    return -gamma * torch.logsumexp(-stacked / gamma, dim=-1)


def skew(cost):
    b, n, m = cost.shape
    out = F.pad(cost, (0, n), value=BIG)
    out = out.reshape(b, -1)[:, : n * (m + n - 1)]
    return out.reshape(b, n, m + n - 1)


def soft_dtw(x, y, gamma):
    b, n, _ = x.shape
    cost = torch.cdist(x, y).pow(2)
    diagonals = skew(cost)
    border = cost.new_full((b, 1), BIG)
    before = torch.cat([cost.new_zeros(b, 1), cost.new_full((b, n), BIG)], dim=1)
    last = cost.new_full((b, n + 1), BIG)
    for d in range(2 * n - 1):
        step = diagonals[:, :, d] + soft_min(before[:, :-1], last[:, :-1], last[:, 1:], gamma)
        before, last = last, torch.cat([border, step.clamp(max=BIG)], dim=1)
    return last[:, -1]


def bone_lengths(pose, parent):
    return (pose - pose[:, :, parent]).norm(dim=-1)[..., 1:]


@torch.compile
def gait_loss(pred, target, parent, gamma: float = 0.1):
    scale = 1.0 / JOINTS
    p, t = pred.flatten(2), target.flatten(2)
    cross, self_pred, self_target = soft_dtw(torch.cat([p, p, t]), torch.cat([t, p, t]), gamma).chunk(3)
    shape = (cross - 0.5 * (self_pred + self_target)).mean() * scale
    bones = F.smooth_l1_loss(bone_lengths(pred, parent), bone_lengths(target, parent))
    velocity = (pred.diff(dim=1) - target.diff(dim=1)).abs().mean()
    return shape + 5.0 * bones + velocity, shape.detach(), bones.detach()


class ResidualTcn(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 1)
        self.norm = nn.GroupNorm(8, channels)

    def forward(self, x):
        return x + self.conv2(F.gelu(self.norm(self.conv1(x))))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Conv1d(JOINTS * 3, CHANNELS, 1)
        self.tcn = nn.Sequential(*[ResidualTcn(CHANNELS, 2**i) for i in range(5)])
        self.time = nn.Linear(PAST, FUTURE)
        self.out = nn.Conv1d(CHANNELS, JOINTS * 3, 1)

    def forward(self, past):
        x = self.inp(past.flatten(2).transpose(1, 2))
        x = self.out(self.time(self.tcn(x))).transpose(1, 2)
        return past[:, -1:] + x.unflatten(2, (JOINTS, 3))


def walkers(count):
    total = PAST + FUTURE
    t = torch.arange(total, device=DEVICE)[None, :, None] / 30.0
    cadence = 0.8 + 0.5 * torch.rand(count, 1, 1, device=DEVICE)
    phase = 6.28 * torch.rand(count, 1, 1, device=DEVICE)
    joint_phase = torch.linspace(0, 6.28, JOINTS, device=DEVICE)[None, None]
    swing = 0.3 + 0.2 * torch.rand(count, 1, JOINTS, device=DEVICE)
    warp = t + 0.1 * torch.sin(1.7 * t + phase)
    angle = swing * torch.sin(6.28 * cadence * warp + phase + joint_phase)
    height = torch.linspace(0, 1.7, JOINTS, device=DEVICE)[None, None]
    pose = torch.stack(
        [torch.sin(angle), 0.1 * torch.cos(2 * angle), height - 0.2 * (1 - torch.cos(angle))], -1
    )
    return pose + 0.005 * torch.randn_like(pose)


def main():
    torch.manual_seed(17)
    torch.set_float32_matmul_precision("high")
    model = Forecaster().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    parent = torch.tensor(PARENT, device=DEVICE)
    data = walkers(32 if SMOKE else 8192)
    start = time.time()
    for step in range(STEPS):
        batch = data[torch.randint(0, len(data), (BATCH,), device=DEVICE)]
        past, future = batch[:, :PAST], batch[:, PAST:]
        pred = model(past)
        loss, shape, bones = gait_loss(pred, future, parent)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} shape {shape.item():.4f} bones {bones.item():.5f}")
    print(f"final loss {loss.item():.4f} in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
