"""Online contact torque estimation for a fleet of simulated 7-DoF arms."""

import time

import torch
import torch.nn as nn

ARMS = 2048
JOINTS = 7
HISTORY = 16
FEATURES = JOINTS * 3 * HISTORY


class RunningWhitener(nn.Module):
    """Bias-corrected exponential moments, as used in the lab controller."""

    def __init__(self, dim, decay=0.98, eps=1e-5):
        super().__init__()
        self.decay = decay
        self.eps = eps
        self.t = 0
        self.register_buffer("m1", torch.zeros(dim))
        self.register_buffer("m2", torch.zeros(dim))

    def forward(self, x):
        self.t += 1
        self.m1.lerp_(x.mean(dim=0), 1 - self.decay)
        self.m2.lerp_(x.square().mean(dim=0), 1 - self.decay)
        correction = 1 - self.decay**self.t
        mean = self.m1 / correction
        var = (self.m2 / correction - mean.square()).clamp_min(0)
        z = (x - mean) * torch.rsqrt(var + self.eps)
        return z.clamp(-5.0, 5.0)


class FrictionModel(nn.Module):
    def __init__(self, joints):
        super().__init__()
        self.coulomb = nn.Parameter(0.3 * torch.rand(joints))
        self.viscous = nn.Parameter(0.1 * torch.rand(joints))
        self.stribeck = nn.Parameter(0.2 * torch.rand(joints))

    def forward(self, qd):
        peak = self.stribeck * torch.exp(-((qd / 0.1) ** 2))
        return (self.coulomb + peak) * torch.tanh(qd / 0.02) + self.viscous * qd


class TorqueEstimator(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = RunningWhitener(FEATURES)
        self.friction = FrictionModel(JOINTS)
        self.mix = nn.Parameter(torch.softmax(torch.randn(HISTORY), 0))
        self.residual = nn.Sequential(
            nn.Linear(FEATURES, 64),
            nn.ELU(),
            nn.Linear(64, JOINTS),
        )

    def forward(self, q, qd, current):
        motor = 1.8 * current - 0.02 * current * current.abs()
        friction = self.friction(qd)
        gravity = 4.0 * torch.sin(q) + 0.7 * torch.sin(2 * q)
        raw = motor - friction - gravity
        filtered = (raw * self.mix[:, None]).sum(dim=1)
        feats = torch.cat((q, qd, current), dim=2).flatten(1)
        return filtered + 0.1 * self.residual(self.whiten(feats))


class FleetSimulator:
    def __init__(self):
        self.gen = torch.Generator().manual_seed(11)
        self.phase = torch.rand(ARMS, 1, JOINTS, generator=self.gen) * 6.28
        self.offset = torch.arange(HISTORY).view(1, -1, 1) * 0.01
        self.clock = 0.0

    def read(self):
        self.clock += 0.01
        arg = self.phase + self.clock + self.offset
        noise = torch.randn(ARMS, HISTORY, JOINTS, generator=self.gen)
        return torch.sin(arg), torch.cos(arg), 2.0 * torch.sin(arg) + 0.1 * noise


def main():
    torch.manual_seed(3)
    torch.set_num_threads(2)
    estimator = torch.compile(TorqueEstimator().eval())
    fleet = FleetSimulator()
    spent = 0.0
    checksum = 0.0
    cycles = 50
    with torch.no_grad():
        for _ in range(12):
            estimator(*fleet.read())
        for _ in range(cycles):
            sample = fleet.read()
            start = time.perf_counter()
            torque = estimator(*sample)
            spent += time.perf_counter() - start
            checksum += torque.abs().mean().item()

    print(f"time per control cycle: {spent / cycles * 1e3:.3f} ms")
    print(f"checksum: {checksum:.5f}")


if __name__ == "__main__":
    main()
