"""Bank of Kalman filters for a surveillance radar.

Nearly constant velocity in three dimensions (six states: position and
velocity), one filter per confirmed track.  Plots from the scan are already
associated to tracks; a plot outside the gate is ignored and the track coasts.
"""

import time

import numpy as np
import torch
from torch import nn

TRACKS = 12000
SCAN = 4.0  # s, antenna period
GATE = 16.3  # chi-square, 3 dof, 0.1 %
SIGMA_ACC = 0.8  # m/s^2


class TrackFilter(nn.Module):
    def __init__(self, dt=SCAN):
        super().__init__()
        eye3 = torch.eye(3)
        trans = torch.eye(6)
        trans[:3, 3:] = dt * eye3
        noise = torch.zeros(6, 6)
        noise[:3, :3] = dt**4 / 4 * eye3
        noise[:3, 3:] = dt**3 / 2 * eye3
        noise[3:, :3] = dt**3 / 2 * eye3
        noise[3:, 3:] = dt**2 * eye3
        obs = torch.zeros(3, 6)
        obs[:, :3] = eye3
        self.register_buffer("trans", trans)
        self.register_buffer("noise", SIGMA_ACC**2 * noise)
        self.register_buffer("obs", obs)
        self.register_buffer("eye", torch.eye(6))

    def predict(self, x, cov):
        x = x @ self.trans.T
        cov = self.trans @ cov @ self.trans.T + self.noise
        return x, cov

    def forward(self, x, cov, plot, plot_cov):
        x, cov = self.predict(x, cov)
        innov = plot - x @ self.obs.T  # (N, 3)
        s = self.obs @ cov @ self.obs.T + plot_cov  # (N, 3, 3)
        s_inv = torch.linalg.inv(s)
        dist = (innov.unsqueeze(1) @ s_inv @ innov.unsqueeze(2)).view(-1)
        gain = cov @ self.obs.T @ s_inv  # (N, 6, 3)
        ok = dist < GATE
        gain = torch.where(ok[:, None, None], gain, torch.zeros_like(gain))
        x = x + (gain @ innov.unsqueeze(2)).squeeze(2)
        # Joseph form keeps the covariance positive definite
        a = self.eye - gain @ self.obs
        cov = a @ cov @ a.mT + gain @ plot_cov @ gain.mT
        return x, cov, dist


def plot_covariance(pos):
    """Measurement error: 40 m in range, 1.5 mrad across, in Cartesian axes."""
    rng = np.linalg.norm(pos, axis=1)
    radial = pos / rng[:, None]
    outer = radial[:, :, None] * radial[:, None, :]
    across = (1.5e-3 * rng) ** 2
    eye = np.eye(3)[None]
    return 40.0**2 * outer + across[:, None, None] * (eye - outer)


class Traffic:
    """Truth: straight flight with small random accelerations."""

    def __init__(self, seed=21):
        self.r = np.random.default_rng(seed)
        self.pos = self.r.uniform(-6e4, 6e4, (TRACKS, 3))
        self.pos[:, 2] = self.r.uniform(500, 11000, TRACKS)
        self.vel = self.r.normal(0, 90, (TRACKS, 3))
        self.vel[:, 2] *= 0.03

    def scan(self):
        acc = self.r.normal(0, 0.5, (TRACKS, 3))
        self.pos += SCAN * self.vel + 0.5 * SCAN**2 * acc
        self.vel += SCAN * acc
        cov = plot_covariance(self.pos)
        chol = np.linalg.cholesky(cov)
        plot = self.pos + np.einsum("nij,nj->ni", chol, self.r.normal(size=(TRACKS, 3)))
        # some plots are clutter
        bad = self.r.random(TRACKS) < 0.02
        plot[bad] += self.r.normal(0, 4000, (bad.sum(), 3))
        return (torch.from_numpy(plot.astype(np.float32)), torch.from_numpy(cov.astype(np.float32)))


@torch.no_grad()
def main():
    traffic = Traffic()
    tracker = torch.compile(TrackFilter())
    plot, plot_cov = traffic.scan()
    x = torch.cat([plot, torch.zeros(TRACKS, 3)], 1)
    cov = torch.zeros(TRACKS, 6, 6)
    cov[:, :3, :3] = plot_cov
    cov[:, 3:, 3:] = 120.0**2 * torch.eye(3)

    for scan in range(26):
        plot, plot_cov = traffic.scan()
        t0 = time.perf_counter()
        x, cov, dist = tracker(x, cov, plot, plot_cov)
        ms = (time.perf_counter() - t0) * 1e3
        err = x[:, :3].numpy() - traffic.pos
        rms = float(np.sqrt(np.median((err**2).sum(1))))
        print(
            f"scan {scan:3d}  {ms:8.2f} ms   median error {rms:7.1f} m   "
            f"coasting {(dist >= GATE).sum().item()}"
        )
    print(f"mean speed {x[:, 3:].norm(dim=1).mean():.2f} m/s")


if __name__ == "__main__":
    main()
