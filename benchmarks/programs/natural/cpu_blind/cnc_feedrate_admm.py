"""Feedrate planning for a three-axis milling machine.

For a look-ahead window of a tool path the squared path speed q(s) is maximised under axis velocity, axis acceleration
and chord-error limits, with a pseudo-jerk penalty (second difference of q). Each window is a small QP; all
windows of a part programme are solved together by ADMM (OSQP splitting) with over-relaxation and adaptive rho,
keeping x, z, y as buffers that stay warm from one override setting of the operator to the next.
"""

import torch

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
WINDOWS, N = 48, 80
V_MAX = torch.tensor([0.30, 0.30, 0.18])  # m/s
A_MAX = torch.tensor([3.0, 2.5, 1.8])  # m/s^2
DS = 0.5e-3  # m


def tool_paths():
    s = torch.linspace(0, N * DS, N)
    freq = torch.rand(WINDOWS, 4, 1) * 400 + 40
    phase = torch.rand(WINDOWS, 4, 1) * 6.283
    heading = (torch.sin(freq * s + phase) * torch.rand(WINDOWS, 4, 1)).sum(1) * 0.8
    tilt = 0.25 * torch.sin(0.5 * freq[:, 0] * s + phase[:, 0])
    tangent = torch.stack([heading.cos() * tilt.cos(), heading.sin() * tilt.cos(), tilt.sin()], -1)
    curvature = torch.gradient(tangent, spacing=DS, dim=1)[0]
    return tangent, curvature


class FeedPlanner:
    alpha, sigma = 1.6, 1e-6

    def __init__(self, tangent, curvature):
        b, n, _ = tangent.shape
        self.b, self.n = b, n
        # axis acceleration: r'' q + r' q'/2 ; q' by central differences
        D = torch.zeros(n, n)
        i = torch.arange(1, n - 1)
        D[i, i + 1], D[i, i - 1] = 0.5 / DS, -0.5 / DS
        D[0, :2] = torch.tensor([-1.0, 1.0]) / DS
        D[-1, -2:] = torch.tensor([-1.0, 1.0]) / DS
        J = torch.zeros(n - 2, n)
        k = torch.arange(n - 2)
        J[k, k], J[k, k + 1], J[k, k + 2] = 1.0, -2.0, 1.0
        rows = [torch.eye(n).expand(b, n, n)]
        for axis in range(3):
            acc = torch.diag_embed(curvature[..., axis]) + 0.5 * tangent[..., axis, None] * D
            rows.append(acc / A_MAX[axis] * 0.05)
        self.A = torch.cat(rows, 1)
        self.P = (2.0 * J.T @ J + 1e-3 * torch.eye(n)).expand(b, n, n)
        chord = 2 * torch.sqrt(2 * 5e-6 / curvature.norm(dim=-1).clamp(min=1e-3)) / 2e-3
        self.q_cap = torch.minimum((V_MAX / tangent.abs().clamp(min=1e-6)).amin(-1), chord).square()
        m = self.A.shape[1]
        self.x = torch.zeros(b, n)
        self.z = torch.zeros(b, m)
        self.y = torch.zeros(b, m)
        self.rho = torch.full((b, 1), 0.5)
        self.cost = torch.full((b, n), -0.01)
        self.primal = torch.zeros(b)
        self.dual = torch.zeros(b)
        self.factorise()

    def set_override(self, percent):
        f = percent / 100.0
        hi = self.q_cap * f * f
        hi[:, 0] = hi[:, 0].clamp(max=4e-4)
        hi[:, -1] = 1e-4
        acc = torch.full((self.b, 3 * self.n), 0.05)
        self.upper = torch.cat([hi, acc], 1)
        self.lower = torch.cat([torch.zeros_like(hi), -acc], 1)

    def factorise(self):
        K = self.P + self.sigma * torch.eye(self.n) + self.rho[..., None] * self.A.mT @ self.A
        self.L = torch.linalg.cholesky(K)

    @torch.compile
    def iterate(self):
        for _ in range(5):
            rhs = (
                self.sigma * self.x
                - self.cost
                + torch.einsum("bmn,bm->bn", self.A, self.rho * self.z - self.y)
            )
            x_t = torch.cholesky_solve(rhs.unsqueeze(-1), self.L).squeeze(-1)
            z_t = torch.einsum("bmn,bn->bm", self.A, x_t)
            z_r = self.alpha * z_t + (1 - self.alpha) * self.z
            self.x.mul_(1 - self.alpha).add_(x_t, alpha=self.alpha)
            self.z.copy_(torch.maximum(torch.minimum(z_r + self.y / self.rho, self.upper), self.lower))
            self.y.add_(self.rho * (z_r - self.z))
        Ax = torch.einsum("bmn,bn->bm", self.A, self.x)
        self.primal.copy_((Ax - self.z).abs().amax(1))
        grad = (
            torch.einsum("bij,bj->bi", self.P, self.x)
            + self.cost
            + torch.einsum("bmn,bm->bn", self.A, self.y)
        )
        self.dual.copy_(grad.abs().amax(1))

    def adapt(self):
        ratio = (self.primal / self.z.abs().amax(1).clamp(min=1e-9)) / (self.dual / 0.01).clamp(min=1e-12)
        scale = ratio.sqrt().clamp(0.2, 5.0)
        scale[(scale > 0.5) & (scale < 2.0)] = 1.0
        if (scale != 1).any():
            self.rho.mul_(scale[:, None]).clamp_(1e-3, 1e3)
            self.factorise()

    def solve(self, tol=2e-6, max_outer=250):
        for it in range(1, max_outer + 1):
            self.iterate()
            if self.primal.max() < tol and self.dual.max() < tol:
                break
            if it % 10 == 0:
                self.adapt()
        return it * 5


def main():
    tangent, curvature = tool_paths()
    planner = FeedPlanner(tangent, curvature)
    for percent in (100, 80, 110, 60, 100, 120):
        planner.set_override(percent)
        its = planner.solve()
        q = planner.x.clamp(min=1e-6)
        speed = q.sqrt()
        time = (DS / speed).sum(1)
        acc = (
            curvature * q[..., None] + 0.5 * tangent * torch.gradient(q, spacing=DS, dim=1)[0][..., None]
        ) / A_MAX
        print(
            f"override {percent:3d}%: {its:4d} iterations, primal {planner.primal.max():.1e} dual {planner.dual.max():.1e}, "
            f"mean feed {speed.mean() * 60:6.2f} m/min, time {time.sum() * 1e3:7.1f} ms, "
            f"worst axis load {acc.abs().amax(-1)[:, 2:-2].quantile(0.99):.2f}"
        )


if __name__ == "__main__":
    main()
