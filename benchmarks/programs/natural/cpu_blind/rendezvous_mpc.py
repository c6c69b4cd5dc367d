"""Monte Carlo of a spacecraft rendezvous (Clohessy-Wiltshire) under linear MPC.

Each control period solves one condensed QP per case with ADMM; all cases in one batch, warm-started.
"""

import math

import torch

torch.set_default_dtype(torch.float32)

H = 20  # horizon
DT = 20.0  # s
N_MEAN = 0.00113  # rad/s, LEO
U_MAX = 0.02  # m/s^2
V_MAX = 1.5  # m/s, limit on each component of velocity in the horizon


def cw_matrices(n, dt):
    A = torch.zeros(6, 6, dtype=torch.float64)
    A[0, 3] = A[1, 4] = A[2, 5] = 1
    A[3, 0], A[3, 4] = 3 * n * n, 2 * n
    A[4, 3] = -2 * n
    A[5, 2] = -n * n
    B = torch.zeros(6, 3, dtype=torch.float64)
    B[3:, :] = torch.eye(3)
    M = torch.zeros(9, 9, dtype=torch.float64)
    M[:6, :6], M[:6, 6:] = A, B
    E = torch.matrix_exp(M * dt)
    return E[:6, :6], E[:6, 6:]


class CondensedMPC:
    """min 1/2 u'Pu + q'u   s.t.  l <= Gu <= h ;   G = [I; velocity rows]"""

    def __init__(self, batch, rho=0.8, sigma=1e-6, alpha=1.6):
        Ad, Bd = cw_matrices(N_MEAN, DT)
        phi, gam = [], torch.zeros(6 * H, 3 * H, dtype=torch.float64)
        power = [torch.eye(6, dtype=torch.float64)]
        for i in range(H):
            power.append(Ad @ power[-1])
            phi.append(power[-1])
            for j in range(i + 1):
                gam[6 * i : 6 * i + 6, 3 * j : 3 * j + 3] = power[i - j] @ Bd
        phi = torch.cat(phi)
        # scale: inputs in units of U_MAX, velocity in units of V_MAX
        gam = gam * U_MAX
        Q = torch.diag(torch.tensor([1e-2, 1e-2, 1e-2, 1.0, 1.0, 1.0], dtype=torch.float64))
        Qb = torch.block_diag(*([Q] * (H - 1) + [20 * Q]))
        P = gam.T @ Qb @ gam + 0.8 * torch.eye(3 * H, dtype=torch.float64)
        F = gam.T @ Qb @ phi
        scale = 1.0 / P.diagonal().mean()
        rows = [6 * i + 3 + c for i in range(H) for c in range(3)]
        Gv = gam[rows] / V_MAX
        G = torch.cat([torch.eye(3 * H, dtype=torch.float64), Gv])
        self.Av = (phi[rows] / V_MAX).float()
        self.P, self.F, self.G = (P * scale).float(), (F * scale).float(), G.float()
        self.Ad, self.Bd = Ad.float(), Bd.float()
        K = P * scale + sigma * torch.eye(3 * H, dtype=torch.float64) + rho * G.T @ G
        self.chol = torch.linalg.cholesky(K).float()
        self.rho, self.sigma, self.alpha = rho, sigma, alpha
        m = G.shape[0]
        self.u = torch.zeros(batch, 3 * H)
        self.z = torch.zeros(batch, m)
        self.y = torch.zeros(batch, m)

    def bounds(self, x0):
        ones = torch.ones(x0.shape[0], 3 * H)
        off = x0 @ self.Av.T
        lo = torch.cat([-ones, -1.0 - off], 1)
        hi = torch.cat([ones, 1.0 - off], 1)
        return lo, hi

    @torch.compile
    def solve(self, x0, max_iter=120, check=10, tol=2e-3):
        q = x0 @ self.F.T
        lo, hi = self.bounds(x0)
        u, z, y = self.u, self.z, self.y
        for it in range(1, max_iter + 1):
            rhs = self.sigma * u - q + (self.rho * z - y) @ self.G
            ut = torch.cholesky_solve(rhs.T, self.chol).T
            zt = ut @ self.G.T
            u = self.alpha * ut + (1 - self.alpha) * u
            zr = self.alpha * zt + (1 - self.alpha) * z
            z_new = torch.clamp(zr + y / self.rho, lo, hi)
            y = y + self.rho * (zr - z_new)
            z = z_new
            if it % check == 0:
                primal = (u @ self.G.T - z).abs().amax()
                dual = (u @ self.P + q + y @ self.G).abs().amax()
                if max(primal.item(), dual.item()) < tol:
                    break
        self.u, self.z, self.y = u, z, y
        return u[:, :3], it

    def shift(self):
        """Warm start of the next period."""

        def roll(a):
            return torch.cat([a[:, 3:], a[:, -3:]], 1)

        self.u = roll(self.u)
        self.z = torch.cat([roll(self.z[:, : 3 * H]), roll(self.z[:, 3 * H :])], 1)
        self.y = torch.cat([roll(self.y[:, : 3 * H]), roll(self.y[:, 3 * H :])], 1)


@torch.compile
def propagate(x, u, Ad, Bd, misalign, sigma_pos, sigma_vel):
    """True plant: thrust error + misalignment; returns the state and the navigation estimate."""
    mag = 1 + 0.02 * torch.randn(u.shape[0], 1)
    real = (misalign @ (u * mag)[..., None])[..., 0] * U_MAX
    x = x @ Ad.T + real @ Bd.T
    x[:, 3:] += 2e-4 * torch.randn(x.shape[0], 3)
    rng = x[:, :3].norm(dim=1, keepdim=True)
    meas = x.clone()
    meas[:, :3] += sigma_pos * (0.2 + rng / 500) * torch.randn_like(meas[:, :3])
    meas[:, 3:] += sigma_vel * torch.randn_like(meas[:, 3:])
    return x, meas


def small_rotations(n, sd):
    w = sd * torch.randn(n, 3)
    S = torch.zeros(n, 3, 3)
    S[:, 0, 1], S[:, 0, 2], S[:, 1, 2] = -w[:, 2], w[:, 1], -w[:, 0]
    S = S - S.transpose(1, 2)
    return torch.matrix_exp(S)


def main(cases=200, periods=60):
    torch.manual_seed(4)
    torch.set_num_threads(2)
    mpc = CondensedMPC(cases)
    x = torch.cat(
        [torch.tensor([20.0, -500.0, 10.0]) + 30 * torch.randn(cases, 3), 0.05 * torch.randn(cases, 3)], 1
    )
    meas = x.clone()
    misalign = small_rotations(cases, math.radians(1.5))
    dv = torch.zeros(cases)
    iters = []
    with torch.no_grad():
        for k in range(periods):
            u, it = mpc.solve(meas)
            x, meas = propagate(x, u, mpc.Ad, mpc.Bd, misalign, 0.5, 0.003)
            mpc.shift()
            dv += u.abs().sum(1) * U_MAX * DT
            iters.append(it)
    miss = x[:, :3].norm(dim=1)
    print(f"ADMM iterations: mean {sum(iters) / len(iters):.1f}, max {max(iters)}")
    print(f"miss distance median {miss.median():.3f} m, 95% {miss.quantile(0.95):.3f} m")
    print(f"delta-v mean {dv.mean():.3f} m/s, 95% {dv.quantile(0.95):.3f} m/s")


if __name__ == "__main__":
    main()
