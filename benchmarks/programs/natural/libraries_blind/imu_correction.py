"""Learned correction of a low-cost IMU (AirIMU style): network -> PyPose preintegration -> pose loss.

The network predicts additive corrections of gyro and accelerometer samples; the corrected
samples are integrated on the manifold and compared with reference poses.
"""

import time

import pypose as pp
import torch
import torch.nn as nn

torch.manual_seed(5)
DT, WINDOW, BATCH = 0.005, 400, 48


class CorrectionNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(6, width, 7, stride=4, padding=3),
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Conv1d(width, width, 7, stride=2, padding=3),
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Dropout(0.1),
        )
        self.gru = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.gyro_head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 3))
        self.acc_head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 3))

    def forward(self, gyro, acc):
        x = torch.cat([gyro, acc], -1)
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        h, _ = self.gru(h)
        h = h.repeat_interleave(x.shape[1] // h.shape[1], dim=1)
        return gyro + 0.1 * self.gyro_head(h), acc + 0.1 * self.acc_head(h)


def simulate(batch):
    """Smooth hand-held motion, then bias, scale and white noise."""
    t = torch.arange(WINDOW) * DT
    f = torch.rand(batch, 3, 4) * 2 + 0.2
    ph = torch.rand(batch, 3, 4) * 6.283
    wave = lambda amp: (amp * torch.sin(6.283 * f[..., None] * t + ph[..., None])).sum(2).transpose(1, 2)
    gyro = wave(torch.randn(batch, 3, 4, 1) * 0.4)
    acc = wave(torch.randn(batch, 3, 4, 1) * 0.8) + torch.tensor([0, 0, 9.81007])
    scale = 1 + 0.01 * torch.randn(batch, 1, 3)
    noisy_gyro = gyro * scale + 0.02 * torch.randn(batch, 1, 3) + 0.01 * torch.randn_like(gyro)
    noisy_acc = acc * scale + 0.1 * torch.randn(batch, 1, 3) + 0.05 * torch.randn_like(acc)
    return gyro, acc, noisy_gyro, noisy_acc


def init_state(batch):
    return {
        "pos": torch.zeros(batch, 1, 3),
        "rot": pp.identity_SO3(batch, 1),
        "vel": torch.zeros(batch, 1, 3),
    }


def rotation_error(a, b):
    return (a.Inv() @ b).Log().tensor().norm(dim=-1)


def main():
    net = CorrectionNet()
    integrator = pp.module.IMUPreintegrator(prop_cov=False, reset=True)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    model = torch.compile(net)
    dt = torch.full((BATCH, WINDOW, 1), DT)
    start = init_state(BATCH)

    data = [simulate(BATCH) for _ in range(10)]
    with torch.no_grad():
        targets = [integrator(dt, g, a, init_state=start) for g, a, _, _ in data]

    step = 0
    for epoch in range(8):
        tic = time.time()
        logs = []
        for (_, _, ng, na), ref in zip(data, targets):
            gyro, acc = model(ng, na)
            out = integrator(dt, gyro, acc, init_state=start)
            l_rot = nn.functional.huber_loss(
                rotation_error(ref["rot"], out["rot"]), torch.zeros(BATCH, WINDOW), delta=0.05
            )
            l_vel = nn.functional.huber_loss(out["vel"], ref["vel"], delta=0.1)
            l_pos = nn.functional.huber_loss(out["pos"], ref["pos"], delta=0.1)
            loss = 100 * l_rot + l_vel + l_pos
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            step += 1
            logs.append(torch.stack([loss, l_rot, l_vel, l_pos]).detach())
        sched.step()
        m = torch.stack(logs).mean(0)
        print(
            f"epoch {epoch} step {step}: loss {m[0]:.4f} rot {m[1]:.2e} vel {m[2]:.4f} pos {m[3]:.4f}"
            f"  [{(time.time() - tic) / len(data) * 1e3:.0f} ms/it]"
        )

    net.eval()
    _, _, ng, na = data[0]
    with torch.no_grad():
        raw = integrator(dt, ng, na, init_state=start)
        cor = integrator(dt, *model(ng, na), init_state=start)
    for name, o in (("raw", raw), ("corrected", cor)):
        e = (o["pos"] - targets[0]["pos"]).norm(dim=-1)[:, -1]
        print(
            f"{name:10s} end drift {e.mean():.3f} m  rot {rotation_error(targets[0]['rot'], o['rot'])[:, -1].mean():.4f} rad"
        )


if __name__ == "__main__":
    main()
