"""Monte-Carlo localisation of a differential-drive robot with a 2-D lidar,
likelihood-field sensor model, adaptive (ESS-triggered) systematic resampling."""

import math
import time

import torch

RES = 0.05  # metres per cell
SIZE = 400  # cells
PARTICLES = 8000
BEAMS = 60
STEPS = 120
DT = 0.2


def build_map(gen):
    occ = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    occ[:3], occ[-3:], occ[:, :3], occ[:, -3:] = True, True, True, True
    for _ in range(26):
        r, c = torch.randint(10, SIZE - 60, (2,), generator=gen).tolist()
        h, w = torch.randint(6, 40, (2,), generator=gen).tolist()
        if abs(r + h / 2 - 200) < 60 and abs(c + w / 2 - 200) < 60:
            continue
        occ[r : r + h, c : c + w] = True
    return occ


def distance_field(occ):
    edge = torch.nn.functional.max_pool2d((~occ)[None, None].float(), 3, 1, 1)[0, 0].bool()
    pts = (occ & edge).nonzero().float()
    grid = torch.cartesian_prod(torch.arange(SIZE), torch.arange(SIZE)).float()
    d = torch.cat([torch.cdist(g, pts).amin(1) for g in grid.split(4000)])
    return d.view(SIZE, SIZE) * RES


def cast_rays(field, pose, angles, max_range=8.0):
    r = torch.zeros_like(angles)
    for _ in range(60):
        x = pose[0] + r * torch.cos(pose[2] + angles)
        y = pose[1] + r * torch.sin(pose[2] + angles)
        i = (y / RES).long().clamp(0, SIZE - 1)
        j = (x / RES).long().clamp(0, SIZE - 1)
        r = (r + field[i, j].clamp_min(0.01) * (field[i, j] > 0.03)).clamp_max(max_range)
    return r


class Localizer:
    def __init__(self, field, n, pose, sigma_hit=0.18, z_rand=0.08):
        self.field = field
        self.n = n
        self.sigma = sigma_hit
        self.z_rand = z_rand
        self.particles = torch.randn(n, 3) * torch.tensor([0.6, 0.6, 0.3]) + pose
        self.logw = torch.full((n,), -math.log(n))
        self.resampled = 0

    def predict(self, v, w):
        noise = torch.randn(self.n, 2)
        vv = v + noise[:, 0] * (0.05 + 0.1 * abs(v))
        ww = w + noise[:, 1] * (0.03 + 0.1 * abs(w))
        th = self.particles[:, 2] + ww * DT
        x = self.particles[:, 0] + vv * DT * torch.cos(th)
        y = self.particles[:, 1] + vv * DT * torch.sin(th)
        self.particles = torch.stack([x, y, th], dim=1)

    def weigh(self, ranges, angles):
        x, y, th = self.particles.unbind(1)
        a = th[:, None] + angles
        ex = x[:, None] + ranges * torch.cos(a)
        ey = y[:, None] + ranges * torch.sin(a)
        j = (ex / RES).long().clamp(0, SIZE - 1)
        i = (ey / RES).long().clamp(0, SIZE - 1)
        d = self.field[i, j]
        p = (1 - self.z_rand) * torch.exp(-0.5 * (d / self.sigma) ** 2) + self.z_rand
        logl = torch.log(p).sum(1) * 0.25
        logw = self.logw + logl
        self.logw = logw - torch.logsumexp(logw, 0)

    def resample(self):
        w = self.logw.exp()
        ess = 1.0 / (w * w).sum()
        if ess.item() < 0.5 * self.n:
            u = (torch.arange(self.n) + torch.rand(1)) / self.n
            idx = torch.searchsorted(torch.cumsum(w, 0), u).clamp_max(self.n - 1)
            self.particles = self.particles[idx]
            self.logw = torch.full((self.n,), -math.log(self.n))
            self.resampled += 1
        return ess

    def estimate(self):
        w = self.logw.exp()
        xy = (w[:, None] * self.particles[:, :2]).sum(0)
        th = torch.atan2((w * self.particles[:, 2].sin()).sum(), (w * self.particles[:, 2].cos()).sum())
        return torch.cat([xy, th[None]])

    @torch.compile
    def update(self, v, w, ranges, angles):
        self.predict(v, w)
        self.weigh(ranges, angles)
        pose = self.estimate()
        ess = self.resample()
        return pose, ess


def main():
    gen = torch.Generator().manual_seed(11)
    torch.manual_seed(11)
    field = distance_field(build_map(gen))
    pose = torch.tensor([10.0, 8.6, 0.0])
    angles = torch.linspace(-math.pi * 0.75, math.pi * 0.75, BEAMS)
    mcl = Localizer(field, PARTICLES, pose)
    errs, times = [], []
    for t in range(STEPS):
        v = 0.5 + 0.2 * math.sin(0.1 * t)
        w = 0.35 + 0.15 * math.cos(0.05 * t)
        pose[2] += w * DT
        pose[0] += v * DT * math.cos(pose[2])
        pose[1] += v * DT * math.sin(pose[2])
        ranges = cast_rays(field, pose, angles) + 0.03 * torch.randn(BEAMS, generator=gen)
        t0 = time.perf_counter()
        est, ess = mcl.update(v, w, ranges, angles)
        times.append(time.perf_counter() - t0)
        errs.append((est[:2] - pose[:2]).norm().item())
        if t % 20 == 19:
            print(f"t={t * DT:5.1f}s  err {errs[-1]:.3f} m  ess {ess.item():8.1f}  resampled {mcl.resampled}")
    print(
        f"mean error {sum(errs[20:]) / len(errs[20:]):.3f} m, update {sum(times) / len(times) * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
