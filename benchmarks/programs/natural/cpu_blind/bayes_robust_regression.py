"""Parallel-chain Hamiltonian Monte Carlo for robust heteroscedastic regression."""

import math
import statistics
import time

import torch

CHAINS = 8
ROWS = 40000
COLS = 12


def simulate(seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, COLS, generator=g)
    x[:, 0] = 1.0
    beta = torch.linspace(-1.0, 1.0, COLS)
    gamma = torch.linspace(0.2, -0.2, COLS)
    scale = torch.exp(0.5 * (x @ gamma) - 1.0)
    chi = torch.randn(ROWS, 5, generator=g).square().mean(dim=1)
    y = x @ beta + scale * torch.randn(ROWS, generator=g) / chi.sqrt()
    return x, y


def potential(theta, x, y):
    """Negative log posterior summed over chains; theta is (chains, 2*COLS+1)."""
    beta = theta[:, :COLS]
    gamma = theta[:, COLS : 2 * COLS]
    log_nu = theta[:, 2 * COLS]
    nu = 2.0 + torch.exp(log_nu)[:, None]

    loc = beta @ x.T
    log_scale = 0.5 * torch.tanh(gamma @ x.T / 4.0) * 4.0 - 1.0
    z = (y - loc) * torch.exp(-log_scale)
    half = 0.5 * (nu + 1.0)
    log_norm = torch.lgamma(half) - torch.lgamma(0.5 * nu) - 0.5 * torch.log(nu * math.pi)
    loglik = log_norm - log_scale - half * torch.log1p(z.square() / nu)
    prior = -0.5 * beta.square().sum(dim=1) - 2.0 * gamma.square().sum(dim=1) - 0.5 * (log_nu - 1.0).square()
    return -(loglik.sum(dim=1) + prior)


compiled_potential = torch.compile(potential)


def value_and_grad(theta, x, y):
    theta = theta.detach().requires_grad_(True)
    u = compiled_potential(theta, x, y)
    (grad,) = torch.autograd.grad(u.sum(), theta)
    return u.detach(), grad


class HMC:
    def __init__(self, theta, x, y, step, leapfrogs=2):
        self.theta, self.x, self.y = theta, x, y
        self.step = step
        self.leapfrogs = leapfrogs
        self.u, self.grad = value_and_grad(theta, x, y)
        self.accepted = 0.0

    def transition(self):
        p = torch.randn_like(self.theta)
        start = self.u + 0.5 * p.square().sum(dim=1)
        theta, grad, u = self.theta, self.grad, self.u
        p = p - 0.5 * self.step * grad
        for i in range(self.leapfrogs):
            theta = theta + self.step * p
            u, grad = value_and_grad(theta, self.x, self.y)
            scale = 0.5 if i == self.leapfrogs - 1 else 1.0
            p = p - scale * self.step * grad
        end = u + 0.5 * p.square().sum(dim=1)
        accept = torch.log(torch.rand(CHAINS)) < start - end
        keep = accept[:, None]
        self.theta = torch.where(keep, theta, self.theta)
        self.grad = torch.where(keep, grad, self.grad)
        self.u = torch.where(accept, u, self.u)
        self.accepted += accept.float().mean().item()


def main():
    torch.manual_seed(1)
    torch.set_num_threads(2)
    x, y = simulate()
    theta = 0.05 * torch.randn(CHAINS, 2 * COLS + 1)
    sampler = HMC(theta, x, y, step=1e-3)
    for _ in range(6):
        sampler.transition()

    times = []
    sampler.accepted = 0.0
    for _ in range(40):
        start = time.perf_counter()
        sampler.transition()
        times.append(time.perf_counter() - start)

    print(f"acceptance: {sampler.accepted / len(times):.2f}")
    print(f"time per transition: {statistics.median(times) * 1e3:.3f} ms")
    print(f"checksum: {sampler.theta.mean().item():.5f} {sampler.u.mean().item():.1f}")


if __name__ == "__main__":
    main()
