"""Posterior of a hot Jupiter's transit with an affine-invariant ensemble sampler (Goodman & Weare stretch move).

The stellar disc is integrated in annuli with quadratic limb darkening, so the light curve is smooth in all
parameters and needs no elliptic integrals.
"""

import math

import torch

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)

N_WALKERS = 64
N_STEPS = 160
N_TIME = 500
N_RING = 40
SIGMA = 4.0e-4

edges = torch.linspace(0.0, 1.0, N_RING + 1)
# finer rings towards the limb
edges = torch.sin(0.5 * math.pi * edges)
R = 0.5 * (edges[1:] + edges[:-1])
DR = edges[1:] - edges[:-1]
MU = torch.sqrt(1.0 - R**2)

NAMES = ["t0", "log_P", "rp", "b", "log_a", "u1", "u2"]
TRUTH = torch.tensor([0.02, math.log(3.1), 0.11, 0.35, math.log(8.2), 0.40, 0.22])
SCALE = torch.tensor([1e-3, 1e-4, 2e-3, 3e-2, 1e-2, 3e-2, 3e-2])


def projected_distance(theta, t):
    t0, log_p, b, log_a = theta[:, 0:1], theta[:, 1:2], theta[:, 3:4], theta[:, 4:5]
    a = torch.exp(log_a)
    phase = 2 * math.pi * (t[None, :] - t0) / torch.exp(log_p)
    cosi = b / a
    x = a * torch.sin(phase)
    y = a * cosi * torch.cos(phase)
    return torch.sqrt(x**2 + y**2 + 1e-12)


def light_curve(theta, t):
    z = projected_distance(theta, t)  # (W, T)
    p = theta[:, 2:3, None]
    u1, u2 = theta[:, 5:6], theta[:, 6:7]
    intensity = 1.0 - u1 * (1 - MU) - u2 * (1 - MU) ** 2  # (W, K)
    total = (2 * math.pi * intensity * R * DR).sum(-1)  # (W,)

    zz = z[:, :, None]
    r = R[None, None, :]
    cos_kappa = (r**2 + zz**2 - p**2) / (2 * r * zz)
    kappa = torch.acos(cos_kappa.clamp(-1.0, 1.0))  # half angle hidden of each ring
    blocked = (2 * kappa * intensity[:, None, :] * r * DR).sum(-1)
    return 1.0 - blocked / total[:, None]


def log_prior(theta):
    rp, b, u1, u2 = theta[:, 2], theta[:, 3], theta[:, 5], theta[:, 6]
    ok = (rp > 0.01) & (rp < 0.3) & (b >= 0) & (b < 1) & (u1 > 0) & (u2 > -0.5) & (u1 + u2 < 1)
    lp = -0.5 * ((theta[:, 1] - TRUTH[1]) / 1e-4) ** 2
    return torch.where(ok, lp, torch.full_like(lp, -torch.inf))


@torch.compile
def log_prob(theta, t, flux):
    model = light_curve(theta, t)
    chi2 = (((flux[None, :] - model) / SIGMA) ** 2).sum(-1)
    return log_prior(theta) - 0.5 * chi2


def stretch_move(active, other, lp, t, flux, a=2.0):
    n, d = active.shape
    zs = ((a - 1.0) * torch.rand(n) + 1.0) ** 2 / a
    partner = other[torch.randint(0, other.shape[0], (n,))]
    proposal = partner + zs[:, None] * (active - partner)
    lp_new = log_prob(proposal, t, flux)
    log_q = (d - 1) * torch.log(zs) + lp_new - lp
    accept = torch.log(torch.rand(n)) < log_q
    active = torch.where(accept[:, None], proposal, active)
    return active, torch.where(accept, lp_new, lp), accept.double().mean()


def main():
    t = torch.linspace(-0.15, 0.19, N_TIME)
    with torch.no_grad():
        flux = light_curve(TRUTH[None], t)[0] + SIGMA * torch.randn(N_TIME)
        half = N_WALKERS // 2
        walkers = TRUTH + SCALE * torch.randn(N_WALKERS, len(NAMES))
        s0, s1 = walkers[:half], walkers[half:]
        lp0, lp1 = log_prob(s0, t, flux), log_prob(s1, t, flux)
        chain, rates = [], []
        for step in range(N_STEPS):
            s0, lp0, r0 = stretch_move(s0, s1, lp0, t, flux)
            s1, lp1, r1 = stretch_move(s1, s0, lp1, t, flux)
            chain.append(torch.cat([s0, s1]))
            rates.append(0.5 * (r0 + r1))
    samples = torch.stack(chain[N_STEPS // 3 :]).reshape(-1, len(NAMES))
    print(f"acceptance {torch.stack(rates).mean():.3f}   best log prob {torch.cat([lp0, lp1]).max():.2f}")
    for k, name in enumerate(NAMES):
        print(f"{name:6s} {samples[:, k].mean():9.5f} +- {samples[:, k].std():.5f}   true {TRUTH[k]:9.5f}")


if __name__ == "__main__":
    main()
