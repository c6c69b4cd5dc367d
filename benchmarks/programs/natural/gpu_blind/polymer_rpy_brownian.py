"""Brownian dynamics of polymer chains in shear flow with hydrodynamic interactions.

An ensemble of FENE bead-spring chains; the beads feel each other through the solvent by the Rotne-Prager-Yamakawa
mobility, whose Cholesky factor correlates the random displacements (Ermak-McCammon). Double precision. The
average stretch, tumbling angle and polymer shear stress are reported for a few shear rates.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
GPU = device == "cuda"
CHAINS, BEADS = (256, 36) if GPU else (8, 12)
STEPS = 900 if GPU else 60
RATES = (0.5, 5.0, 20.0)
A = 0.5  # bead radius
K, R0 = 30.0, 1.6  # FENE spring
EPS, SIGMA = 1.0, 1.0  # WCA
DT = 2e-4

torch.set_default_dtype(torch.float64)


def pair_vectors(pos):
    d = pos.unsqueeze(2) - pos.unsqueeze(1)
    r2 = (d * d).sum(-1)
    r2 = r2 + torch.eye(pos.shape[1], device=pos.device)
    return d, r2


def forces(pos, d, r2):
    n = pos.shape[1]
    bond = pos[:, 1:] - pos[:, :-1]
    b2 = (bond * bond).sum(-1, keepdim=True)
    pull = K * bond / (1 - (b2 / R0**2).clamp(max=0.98))
    f = torch.zeros_like(pos)
    f[:, :-1] += pull
    f[:, 1:] -= pull
    s6 = (SIGMA**2 / r2.clamp(min=0.64)) ** 3
    mag = 24 * EPS * (2 * s6 * s6 - s6) / r2
    cut = (r2 < 2 ** (1 / 3) * SIGMA**2) & ~torch.eye(n, dtype=torch.bool, device=pos.device)
    mag = torch.where(cut, mag, torch.zeros_like(mag))
    return f + (mag.unsqueeze(-1) * d).sum(2)


def mobility(d, r2):
    """RPY tensor in units of the single-bead mobility, [chains, 3n, 3n]."""
    b, n = r2.shape[:2]
    r = torch.sqrt(r2)
    hat = d / r.unsqueeze(-1)
    outer = hat.unsqueeze(-1) * hat.unsqueeze(-2)
    one = torch.eye(3, device=d.device)
    far_i = 0.75 * A / r * (1 + 2 * A**2 / (3 * r2))
    far_o = 0.75 * A / r * (1 - 2 * A**2 / r2)
    near_i = 1 - 9 * r / (32 * A)
    near_o = 3 * r / (32 * A)
    apart = r >= 2 * A
    ci = torch.where(apart, far_i, near_i)
    co = torch.where(apart, far_o, near_o)
    m = ci[..., None, None] * one + co[..., None, None] * outer
    diag = torch.eye(n, dtype=torch.bool, device=d.device)[None, :, :, None, None]
    m = torch.where(diag, one, m)
    return m.permute(0, 1, 3, 2, 4).reshape(b, 3 * n, 3 * n)


def step(pos, noise, rate):
    d, r2 = pair_vectors(pos)
    f = forces(pos, d, r2)
    m = mobility(d, r2)
    chol = torch.linalg.cholesky(m)
    drift = (m @ f.flatten(1).unsqueeze(-1)).view_as(pos)
    kick = (chol @ noise.unsqueeze(-1)).view_as(pos)
    new = pos + DT * drift + (2 * DT) ** 0.5 * kick
    new[..., 0] += DT * rate * pos[..., 1]
    new = new - new.mean(1, keepdim=True)
    stress = -(pos[..., 0] * f[..., 1]).sum(1).mean()
    return new, stress


class Observer:
    def __init__(self):
        self.stretch, self.angle, self.stress = [], [], []

    def record(self, pos, stress):
        centred = pos - pos.mean(1, keepdim=True)
        g = torch.einsum("bni,bnj->bij", centred, centred) / pos.shape[1]
        self.stretch.append((pos.amax(1) - pos.amin(1))[:, 0].mean())
        self.angle.append(0.5 * torch.atan2(2 * g[:, 0, 1], g[:, 0, 0] - g[:, 1, 1]).mean())
        self.stress.append(stress)

    def report(self, rate):
        half = len(self.stretch) // 2
        s, a, t = (torch.stack(v)[half:].mean().item() for v in (self.stretch, self.angle, self.stress))
        print(f"rate {rate:4.1f}: stretch {s:.3f}  orientation {a:+.3f} rad  shear stress {t:+.3f}")


def start(gen):
    turn = torch.randn(CHAINS, BEADS, 3, generator=gen, device=device)
    turn[..., 0] += 1.2 * turn[..., 0].sign()
    turn[..., 0] = turn[..., 0].abs()
    turn = turn / turn.norm(dim=-1, keepdim=True)
    return (0.97 * turn).cumsum(1)


def main():
    gen = torch.Generator(device=device).manual_seed(21)
    advance = torch.compile(step)
    for rate in RATES:
        pos = start(gen)
        obs = Observer()
        shear = torch.tensor(rate, device=device)
        for i in range(STEPS):
            noise = torch.randn(CHAINS, 3 * BEADS, generator=gen, device=device)
            pos, stress = advance(pos, noise, shear)
            if i % 10 == 0:
                obs.record(pos, stress)
        obs.report(rate)
        bond = (pos[:, 1:] - pos[:, :-1]).norm(dim=-1)
        print(f"           bond {bond.mean():.3f} (max {bond.max():.3f})")


if __name__ == "__main__":
    main()
