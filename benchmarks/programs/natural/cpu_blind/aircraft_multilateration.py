"""Wide-area multilateration of aircraft from times of arrival at ground receivers.

Each second brings some thousand replies; every reply was heard by a part of the receivers.  Position and emission
time are found by damped Gauss-Newton with Huber weights, batched over the replies; then an error ellipse for the
tracker.
"""

import time

import torch

RECEIVERS = 10
REPLIES = 5000
ITERATIONS = 8
SECONDS = 90
SIGMA = 0.012  # km, about 40 ns
HUBER = 2.5


def receiver_sites(gen):
    angle = torch.linspace(0, 2 * torch.pi, RECEIVERS + 1, dtype=torch.float64)[:-1]
    radius = 35 + 45 * torch.rand(RECEIVERS, generator=gen, dtype=torch.float64)
    height = 0.05 + 1.1 * torch.rand(RECEIVERS, generator=gen, dtype=torch.float64)
    return torch.stack([radius * angle.cos(), radius * angle.sin(), height], dim=-1)


class Multilateration:
    def __init__(self, sites, damping=1e-3):
        self.sites = sites
        self.damping = damping
        self.solve = torch.compile(self._solve)

    def _linearise(self, state, toa, heard):
        diff = state[:, None, :3] - self.sites
        dist = torch.linalg.vector_norm(diff, dim=-1)
        resid = (dist + state[:, 3:] - toa) / SIGMA
        weight = heard * (HUBER / resid.abs().clamp_min(1e-9)).clamp_max(1.0)
        jac = torch.cat([diff / dist[..., None], torch.ones_like(dist)[..., None]], dim=-1) / SIGMA
        normal = (jac * weight[..., None]).mT @ jac
        rhs = (jac * (weight * resid)[..., None]).sum(dim=1)
        return normal, rhs, weight, resid

    def _solve(self, start, toa, heard):
        state = start
        for _ in range(ITERATIONS):
            normal, rhs, _, _ = self._linearise(state, toa, heard)
            damped = normal + self.damping * torch.diag_embed(normal.diagonal(dim1=-2, dim2=-1))
            state = state - torch.linalg.solve(damped, rhs)
        normal, _, weight, resid = self._linearise(state, toa, heard)
        cov = torch.linalg.inv(normal)
        sigma_xy = torch.sqrt(cov[:, 0, 0] + cov[:, 1, 1])
        sigma_z = torch.sqrt(cov[:, 2, 2])
        chi2 = (weight * resid.square()).sum(dim=-1) / (heard.sum(dim=-1) - 4).clamp_min(1)
        return state, sigma_xy, sigma_z, chi2


def fly(pos, vel, dt, gen):
    """Straight flight with small changes of heading."""
    turn = 0.02 * torch.randn(pos.shape[0], generator=gen, dtype=torch.float64)
    c, s = turn.cos(), turn.sin()
    vx, vy = c * vel[:, 0] - s * vel[:, 1], s * vel[:, 0] + c * vel[:, 1]
    vel = torch.stack([vx, vy, vel[:, 2]], dim=-1)
    pos = pos + dt * vel
    out = pos[:, :2].norm(dim=-1) > 95
    vel[out, :2] = -vel[out, :2]
    return pos, vel


def replies(pos, sites, gen):
    """Times of arrival in km, with noise, multipath and receivers that miss the reply."""
    n = pos.shape[0]
    dist = torch.linalg.vector_norm(pos[:, None] - sites, dim=-1)
    emission = 30 * torch.randn(n, 1, generator=gen, dtype=torch.float64)
    toa = dist + emission + SIGMA * torch.randn(n, RECEIVERS, generator=gen, dtype=torch.float64)
    echo = torch.rand(n, RECEIVERS, generator=gen) < 0.03
    toa = toa + echo * 0.5 * torch.rand(n, RECEIVERS, generator=gen, dtype=torch.float64)
    order = (
        (dist + 25 * torch.rand(n, RECEIVERS, generator=gen, dtype=torch.float64))
        .argsort(dim=1)
        .argsort(dim=1)
    )
    heard = (order < 6) | (torch.rand(n, RECEIVERS, generator=gen) < 0.4)
    return toa, heard.double(), emission


@torch.inference_mode()
def main():
    gen = torch.Generator().manual_seed(9)
    sites = receiver_sites(gen)
    mlat = Multilateration(sites)
    pos = torch.rand(REPLIES, 3, generator=gen, dtype=torch.float64) * torch.tensor(
        [120.0, 120.0, 9.0]
    ) + torch.tensor([-60.0, -60.0, 2.5])
    vel = torch.randn(REPLIES, 3, generator=gen, dtype=torch.float64) * torch.tensor([0.15, 0.15, 0.003])
    guess = pos + torch.randn(REPLIES, 3, generator=gen, dtype=torch.float64) * torch.tensor([1.0, 1.0, 0.3])
    busy, errors = 0.0, []
    for second in range(SECONDS):
        pos, vel = fly(pos, vel, 1.0, gen)
        toa, heard, _ = replies(pos, sites, gen)
        t0 = time.perf_counter()
        # emission time starts from the mean excess over the guessed ranges
        rough = torch.linalg.vector_norm(guess[:, None] - sites, dim=-1)
        bias = (heard * (toa - rough)).sum(1, keepdim=True) / heard.sum(1, keepdim=True)
        state, sigma_xy, sigma_z, chi2 = mlat.solve(torch.cat([guess, bias], dim=-1), toa, heard)
        busy += time.perf_counter() - t0
        ok = (chi2 < 4) & (sigma_xy < 0.5) & (sigma_z < 2.0)
        err = (state[:, :2] - pos[:, :2]).norm(dim=-1)
        errors.append(err[ok].median())
        # accepted plots feed the next first guess, the others coast
        guess = torch.where(ok[:, None], state[:, :3], guess + vel) + vel
        lost = (guess - pos).norm(dim=-1) > 15
        guess[lost] = pos[lost] + 0.5
        if second % 15 == 0:
            print(
                f"t={second:3d} s accepted {100 * ok.double().mean():5.1f} % horizontal error "
                f"{1e3 * errors[-1]:6.1f} m, predicted {1e3 * sigma_xy[ok].median():6.1f} m, lost {int(lost.sum())}"
            )
    print(
        f"median error {1e3 * torch.stack(errors).median():.1f} m, {SECONDS} updates, solver {busy:.2f} s, "
        f"{1e3 * busy / SECONDS:.1f} ms each"
    )


if __name__ == "__main__":
    main()
