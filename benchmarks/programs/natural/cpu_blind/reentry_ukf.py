"""Unscented Kalman filter for a re-entering vehicle seen by one radar, Monte Carlo consistency test.

The classic benchmark of Julier and Uhlmann: position and velocity in a plane and an unknown ballistic
parameter.  All Monte Carlo runs are filtered as one batch; NEES tells whether the filter is consistent.
"""

import time

import torch

torch.set_default_dtype(torch.float64)

BETA0, H0, GM, R0 = -0.59783, 13.406, 3.9860e5, 6374.0
N = 5
ALPHA, KAPPA, BETA = 1.0, 0.0, 2.0
LAM = ALPHA**2 * (N + KAPPA) - N
WM = torch.full((2 * N + 1,), 0.5 / (N + LAM))
WM[0] = LAM / (N + LAM)
WC = WM.clone()
WC[0] += 1.0 - ALPHA**2 + BETA

DT = 0.5
SUBSTEPS = 2
Q = torch.diag(torch.tensor([1e-12, 1e-12, 2.4e-5 * DT, 2.4e-5 * DT, 1e-6]))
R_MEAS = torch.diag(torch.tensor([1e-3**2, 1.7e-3**2]))
RADAR = torch.tensor([R0, 0.0])


def dynamics(x):
    px, py, vx, vy, b = x.unbind(-1)
    radius = torch.sqrt(px * px + py * py)
    speed = torch.sqrt(vx * vx + vy * vy)
    drag = BETA0 * torch.exp(b) * torch.exp((R0 - radius) / H0) * speed
    grav = -GM / radius**3
    return torch.stack([vx, vy, drag * vx + grav * px, drag * vy + grav * py, torch.zeros_like(b)], dim=-1)


def propagate(x):
    h = DT / SUBSTEPS
    for _ in range(SUBSTEPS):
        k1 = dynamics(x)
        k2 = dynamics(x + 0.5 * h * k1)
        k3 = dynamics(x + 0.5 * h * k2)
        k4 = dynamics(x + h * k3)
        x = x + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def observe(x):
    d = x[..., :2] - RADAR
    return torch.stack([torch.linalg.vector_norm(d, dim=-1), torch.atan2(d[..., 1], d[..., 0])], dim=-1)


def sigma_points(mean, cov):
    root = torch.linalg.cholesky((N + LAM) * cov)
    spread = root.mT  # rows are the columns of the root
    m = mean[:, None, :]
    return torch.cat([m, m + spread, m - spread], dim=1)


def weighted_cov(a, b):
    return torch.einsum("s,bsi,bsj->bij", WC, a, b)


@torch.compile
def predict(mean, cov):
    pts = propagate(sigma_points(mean, cov))
    mean = torch.einsum("s,bsi->bi", WM, pts)
    dev = pts - mean[:, None, :]
    return mean, weighted_cov(dev, dev) + Q


@torch.compile
def update(mean, cov, z):
    pts = sigma_points(mean, cov)
    zs = observe(pts)
    z_mean = torch.einsum("s,bsi->bi", WM, zs)
    dz = zs - z_mean[:, None, :]
    dx = pts - mean[:, None, :]
    s = weighted_cov(dz, dz) + R_MEAS
    pxz = weighted_cov(dx, dz)
    gain = torch.linalg.solve(s, pxz.mT).mT
    innov = z - z_mean
    mean = mean + (gain @ innov[:, :, None]).squeeze(-1)
    cov = cov - gain @ s @ gain.mT
    cov = 0.5 * (cov + cov.mT) + 1e-13 * torch.eye(N)
    nis = (innov * torch.linalg.solve(s, innov)).sum(-1)
    return mean, cov, nis


def simulate(runs, steps, gen):
    x = torch.tensor([6500.4, 349.14, -1.8093, -6.7967, 0.6932]).expand(runs, N).clone()
    x[:, :4] += 1e-3 * torch.randn(runs, 4, generator=gen)
    q_root, r_root = Q.sqrt(), R_MEAS.sqrt()
    truth, seen = [], []
    for _ in range(steps):
        x = propagate(x) + torch.randn(runs, N, generator=gen) @ q_root
        truth.append(x)
        seen.append(observe(x) + torch.randn(runs, 2, generator=gen) @ r_root)
    return truth, seen


def main():
    gen = torch.Generator().manual_seed(11)
    runs, steps = 500, 300
    truth, seen = simulate(runs, steps, gen)
    mean = torch.tensor([6500.4, 349.14, -1.8093, -6.7967, 0.0]).expand(runs, N).clone()
    cov = torch.diag(torch.tensor([1e-6, 1e-6, 1e-6, 1e-6, 1.0])).expand(runs, N, N).clone()

    begin = time.perf_counter()
    nis_sum = 0.0
    for k in range(steps):
        mean, cov = predict(mean, cov)
        mean, cov, nis = update(mean, cov, seen[k])
        nis_sum += nis.mean().item()
        if k % 50 == 49:
            err = truth[k] - mean
            nees = (err * torch.linalg.solve(cov, err)).sum(-1)
            pos = err[:, :2].norm(dim=-1).mean() * 1e3
            print(
                f"t {(k + 1) * DT:6.1f} s  position error {pos:8.2f} m  ballistic error "
                f"{err[:, 4].abs().mean():.4f}  NEES {nees.median():.2f} (should be near 4.4)"
            )
    seconds = time.perf_counter() - begin
    print(f"mean NIS {nis_sum / steps:.3f} (should be near 2)")
    print(f"filtered {runs} runs x {steps} scans in {seconds:.2f} s")


if __name__ == "__main__":
    main()
