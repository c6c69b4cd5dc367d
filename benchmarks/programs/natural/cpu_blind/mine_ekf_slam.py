"""EKF-SLAM for a load-haul-dump vehicle in an underground mine.

The vehicle drives loops through a room-and-pillar section and sees retro-reflector
beacons (known identity, range and bearing).  The filter keeps the pose and every
beacon in one joint Gaussian.  At the end we compare the map with the surveyed beacons.
"""

import math

import torch

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)

N_BEACONS = 140
STEPS = 180
DT = 0.5
MAX_RANGE = 22.0
Q_ODO = torch.diag(torch.tensor([0.04, 0.04, 0.004])) ** 2
R_OBS = torch.diag(torch.tensor([0.10, math.radians(1.0)])) ** 2


def wrap(a):
    return torch.atan2(torch.sin(a), torch.cos(a))


def make_world():
    rows, cols = 10, 14
    ys, xs = torch.meshgrid(torch.arange(rows) * 9.0, torch.arange(cols) * 9.0, indexing="ij")
    beacons = torch.stack([xs.reshape(-1), ys.reshape(-1)], 1)
    beacons += torch.randn_like(beacons) * 1.5
    return beacons[:N_BEACONS]


def drive_command(k):
    # two wide ovals with a slow weave
    v = 3.2 + 0.4 * math.sin(0.05 * k)
    w = 0.085 + 0.03 * math.sin(0.11 * k)
    return v, w


def move(pose, u):
    x, y, th = pose.unbind()
    v, w = u.unbind()
    return torch.stack(
        [
            x + v * DT * torch.cos(th + 0.5 * w * DT),
            y + v * DT * torch.sin(th + 0.5 * w * DT),
            wrap(th + w * DT),
        ]
    )


@torch.compile
def predict(mu, P, u):
    th = mu[2] + 0.5 * u[1] * DT
    mu[:3] = move(mu[:3].clone(), u)
    n = mu.shape[0]
    G = torch.eye(n)
    G[0, 2] = -u[0] * DT * torch.sin(th)
    G[1, 2] = u[0] * DT * torch.cos(th)
    P = G @ P @ G.T
    P[:3, :3] += Q_ODO
    return mu, P


@torch.compile
def correct(mu, P, z, lm):
    j = 3 + 2 * lm
    dx = mu[j] - mu[0]
    dy = mu[j + 1] - mu[1]
    q = dx * dx + dy * dy
    r = torch.sqrt(q)
    z_hat = torch.stack([r, wrap(torch.atan2(dy, dx) - mu[2])])

    H = torch.zeros(2, mu.shape[0])
    H[0, 0] = -dx / r
    H[0, 1] = -dy / r
    H[1, 0] = dy / q
    H[1, 1] = -dx / q
    H[1, 2] = -1.0
    H[0, j] = dx / r
    H[0, j + 1] = dy / r
    H[1, j] = -dy / q
    H[1, j + 1] = dx / q

    S = H @ P @ H.T + R_OBS
    K = P @ H.T @ torch.linalg.inv(S)
    nu = z - z_hat
    nu[1] = wrap(nu[1])
    mu = mu + K @ nu
    mu[2] = wrap(mu[2])
    I_KH = torch.eye(mu.shape[0]) - K @ H
    P = I_KH @ P @ I_KH.T + K @ R_OBS @ K.T  # Joseph form
    nis = nu @ torch.linalg.solve(S, nu)
    return mu, P, nis


def add_beacon(mu, P, z, lm):
    j = 3 + 2 * lm
    a = mu[2] + z[1]
    mu[j] = mu[0] + z[0] * torch.cos(a)
    mu[j + 1] = mu[1] + z[0] * torch.sin(a)
    Gx = torch.tensor([[1.0, 0.0, -z[0] * torch.sin(a)], [0.0, 1.0, z[0] * torch.cos(a)]])
    Gz = torch.tensor([[torch.cos(a), -z[0] * torch.sin(a)], [torch.sin(a), z[0] * torch.cos(a)]])
    cross = Gx @ P[:3, :]
    P[j : j + 2, :] = cross
    P[:, j : j + 2] = cross.T
    P[j : j + 2, j : j + 2] = Gx @ P[:3, :3] @ Gx.T + Gz @ R_OBS @ Gz.T


def sense(pose, beacons):
    d = beacons - pose[:2]
    r = d.norm(dim=1)
    ids = torch.nonzero(r < MAX_RANGE).squeeze(1)
    ids = ids[r[ids].argsort()][:7]
    b = wrap(torch.atan2(d[ids, 1], d[ids, 0]) - pose[2])
    z = torch.stack([r[ids], b], 1)
    z = z + torch.randn_like(z) @ R_OBS.sqrt()
    return ids.tolist(), z


def main():
    beacons = make_world()
    truth = torch.tensor([60.0, 8.0, 0.2])
    mu = torch.zeros(3 + 2 * N_BEACONS)
    mu[:3] = truth
    P = torch.zeros(mu.numel(), mu.numel())
    known = set()
    errors, nis_all = [], []
    for k in range(STEPS):
        u = torch.tensor(drive_command(k))
        truth = move(truth, u)
        noisy = u + torch.randn(2) * torch.tensor([0.08, 0.006])
        mu, P = predict(mu, P, noisy)
        ids, z = sense(truth, beacons)
        for lm, zi in zip(ids, z):
            if lm not in known:
                add_beacon(mu, P, zi, lm)
                known.add(lm)
            else:
                mu, P, nis = correct(mu, P, zi, lm)
                nis_all.append(nis.item())
        errors.append((mu[:2] - truth[:2]).norm().item())

    found = sorted(known)
    est = mu[3:].view(-1, 2)[found]
    err = (est - beacons[found]).norm(dim=1)
    print(f"beacons mapped {len(found)}/{N_BEACONS}, corrections {len(nis_all)}")
    print(f"pose error mean {sum(errors) / len(errors):.3f} m, final {errors[-1]:.3f} m")
    print(f"map error rms {err.square().mean().sqrt():.3f} m, worst {err.max():.3f} m")
    print(f"mean NIS {sum(nis_all) / len(nis_all):.2f} (2 expected)")


if __name__ == "__main__":
    main()
