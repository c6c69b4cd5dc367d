"""Monte Carlo localisation of a wheeled robot from range/bearing landmark fixes."""

import math
import time

import torch

N_PARTICLES = 60_000
N_LANDMARKS = 10
STEPS = 60
SIGMA_R, SIGMA_B = 0.6, 0.05
SIGMA_V, SIGMA_W = 0.15, 0.04
DT = 0.5


def wrap(a):
    return torch.remainder(a + math.pi, 2 * math.pi) - math.pi


class ParticleFilter:
    def __init__(self, n, landmarks):
        self.n = n
        self.landmarks = landmarks
        self.particles = torch.rand(n, 3) * torch.tensor([40.0, 40.0, 2 * math.pi])
        self.logw = torch.full((n,), -math.log(n))
        self.estimates = []
        self.n_resampled = 0

    def predict(self, v, w):
        v = v + SIGMA_V * torch.randn(self.n)
        w = w + SIGMA_W * torch.randn(self.n)
        th = self.particles[:, 2]
        x = self.particles[:, 0] + v * DT * torch.cos(th)
        y = self.particles[:, 1] + v * DT * torch.sin(th)
        self.particles = torch.stack([x, y, wrap(th + w * DT)], dim=1)

    def weigh(self, ranges, bearings, seen):
        dx = self.landmarks[None, :, 0] - self.particles[:, None, 0]
        dy = self.landmarks[None, :, 1] - self.particles[:, None, 1]
        r = torch.sqrt(dx * dx + dy * dy)
        b = wrap(torch.atan2(dy, dx) - self.particles[:, None, 2])
        er = (r - ranges) / SIGMA_R
        eb = wrap(b - bearings) / SIGMA_B
        # heavy-tailed likelihood so one bad fix doesn't kill the cloud
        ll = -2.0 * torch.log1p(0.25 * (er * er + eb * eb))
        logw = self.logw + (ll * seen).sum(1)
        self.logw = logw - torch.logsumexp(logw, 0)

    def resample(self, w):
        u = (torch.arange(self.n) + torch.rand(1)) / self.n
        idx = torch.searchsorted(torch.cumsum(w, 0), u).clamp(max=self.n - 1)
        self.particles = self.particles[idx]
        self.particles = self.particles + torch.randn(self.n, 3) * torch.tensor([0.05, 0.05, 0.01])
        self.logw = torch.full((self.n,), -math.log(self.n))
        self.n_resampled += 1

    @torch.compile
    def update(self, v, w, ranges, bearings, seen):
        self.predict(v, w)
        self.weigh(ranges, bearings, seen)
        wts = self.logw.exp()
        mean_xy = (wts[:, None] * self.particles[:, :2]).sum(0)
        s = (wts * torch.sin(self.particles[:, 2])).sum()
        c = (wts * torch.cos(self.particles[:, 2])).sum()
        self.estimates.append(torch.cat([mean_xy, torch.atan2(s, c)[None]]))
        ess = 1.0 / (wts * wts).sum()
        if ess.item() < 0.5 * self.n:
            self.resample(wts)
        return ess


def main():
    torch.manual_seed(11)
    torch.set_num_threads(2)
    landmarks = torch.rand(N_LANDMARKS, 2) * 40.0
    pose = torch.tensor([12.0, 10.0, 0.3])
    pf = ParticleFilter(N_PARTICLES, landmarks)
    truth = []
    started = time.perf_counter()
    for t in range(STEPS):
        v = torch.tensor(1.5)
        w = torch.tensor(0.25 * math.sin(t / 7.0) + 0.12)
        pose = torch.stack(
            [
                pose[0] + v * DT * torch.cos(pose[2]),
                pose[1] + v * DT * torch.sin(pose[2]),
                wrap(pose[2] + w * DT),
            ]
        )
        truth.append(pose)
        d = landmarks - pose[:2]
        rng = d.norm(dim=1) + SIGMA_R * torch.randn(N_LANDMARKS)
        brg = wrap(torch.atan2(d[:, 1], d[:, 0]) - pose[2] + SIGMA_B * torch.randn(N_LANDMARKS))
        seen = (d.norm(dim=1) < 22.0).float()
        t0 = time.perf_counter()
        ess = pf.update(v, w, rng, brg, seen)
        ms = 1e3 * (time.perf_counter() - t0)
        if t % 6 == 0 or t == STEPS - 1:
            err = (pf.estimates[-1][:2] - pose[:2]).norm().item()
            print(f"t={t:3d} err={err:6.3f} m  ess={ess.item():9.1f}  {ms:.1f} ms")
    est = torch.stack(pf.estimates)
    rmse = (est[10:, :2] - torch.stack(truth)[10:, :2]).pow(2).sum(1).mean().sqrt()
    print(
        f"rmse after burn-in {rmse:.3f} m, resampled {pf.n_resampled} times, "
        f"{time.perf_counter() - started:.1f} s"
    )


if __name__ == "__main__":
    main()
