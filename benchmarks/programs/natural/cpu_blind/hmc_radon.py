"""Hierarchical regression (radon-style: units within counties) sampled with
Hamiltonian Monte Carlo: dual-averaging step size, jittered trajectory length."""

import math
import random
import time

import torch
from torch.func import grad_and_value

N_OBS, N_COUNTY, N_X = 20000, 85, 6
WARMUP, DRAWS = 80, 50
TARGET_ACCEPT = 0.8


def make_data(gen):
    county = torch.randint(0, N_COUNTY, (N_OBS,), generator=gen)
    uranium = torch.randn(N_COUNTY, generator=gen, dtype=torch.float64)
    x = torch.randn(N_OBS, N_X, generator=gen, dtype=torch.float64)
    floor = (torch.rand(N_OBS, generator=gen) < 0.2).double()
    a = 1.4 + 0.7 * uranium + 0.35 * torch.randn(N_COUNTY, generator=gen, dtype=torch.float64)
    b = -0.65 + 0.25 * torch.randn(N_COUNTY, generator=gen, dtype=torch.float64)
    beta = torch.tensor([0.3, -0.2, 0.1, 0.0, 0.0, 0.5], dtype=torch.float64)
    noise = torch.distributions.StudentT(4.0).sample((N_OBS,)).double()
    y = a[county] + b[county] * floor + x @ beta + 0.75 * noise
    return y, x, floor, county, uranium


SIZES = [
    ("mu", 1),
    ("gamma", 1),
    ("slope", 1),
    ("log_tau", 2),
    ("log_sigma", 1),
    ("log_nu", 1),
    ("beta", N_X),
    ("za", N_COUNTY),
    ("zb", N_COUNTY),
]
DIM = sum(s for _, s in SIZES)


def unpack(q):
    return dict(zip([n for n, _ in SIZES], q.split([s for _, s in SIZES])))


def neg_log_post(q, y, x, floor, county, uranium):
    p = unpack(q)
    tau = p["log_tau"].exp()
    sigma, nu = p["log_sigma"].exp(), 1.0 + p["log_nu"].exp()
    a = p["mu"] + p["gamma"] * uranium + tau[0] * p["za"]
    b = p["slope"] + tau[1] * p["zb"]
    mean = a[county] + b[county] * floor + x @ p["beta"]
    r = (y - mean) / sigma
    lik = (
        torch.lgamma((nu + 1) / 2)
        - torch.lgamma(nu / 2)
        - 0.5 * torch.log(nu * math.pi)
        - p["log_sigma"]
        - (nu + 1) / 2 * torch.log1p(r * r / nu)
    ).sum()
    prior = (-0.5 * (p["mu"] / 5) ** 2 - 0.5 * p["gamma"] ** 2 - 0.5 * p["slope"] ** 2).sum()
    prior = prior - 0.5 * (p["beta"] ** 2).sum()
    prior = prior - 0.5 * (p["za"] ** 2).sum() - 0.5 * (p["zb"] ** 2).sum()
    prior = prior + (p["log_tau"] - 0.5 * tau**2).sum()
    prior = prior - 0.5 * (p["log_sigma"] ** 2).sum() - 0.5 * ((p["log_nu"] - 1) ** 2).sum()
    return -(lik + prior)


potential = grad_and_value(neg_log_post)


@torch.compile
def leapfrog(q, p, inv_mass, eps, n_steps, data):
    g, u0 = potential(q, *data)
    h0 = u0 + 0.5 * (inv_mass * p * p).sum()
    for _ in range(n_steps):
        p = p - 0.5 * eps * g
        q = q + eps * inv_mass * p
        g, u = potential(q, *data)
        p = p - 0.5 * eps * g
    return q, h0 - (u + 0.5 * (inv_mass * p * p).sum())


class DualAveraging:
    def __init__(self, eps):
        self.mu, self.hbar, self.logbar, self.t = math.log(10 * eps), 0.0, 0.0, 0
        self.eps = eps

    def update(self, accept):
        self.t += 1
        w = 1 / (self.t + 10)
        self.hbar = (1 - w) * self.hbar + w * (TARGET_ACCEPT - accept)
        logeps = self.mu - math.sqrt(self.t) / 0.05 * self.hbar
        k = self.t**-0.75
        self.logbar = k * logeps + (1 - k) * self.logbar
        self.eps = math.exp(logeps)


def run_chain(data, q, rng):
    inv_mass = torch.ones(DIM, dtype=torch.float64)
    inv_mass[:6] = 1e-2
    inv_mass[6 : 6 + 1 + N_X] = 1e-3
    da = DualAveraging(0.05)
    eps, draws, acc = da.eps, [], 0.0
    for it in range(WARMUP + DRAWS):
        n_steps = rng.randint(3, 10)
        p = torch.randn(DIM, dtype=torch.float64) / inv_mass.sqrt()
        q_new, delta = leapfrog(q, p, inv_mass, eps, n_steps, data)
        a = math.exp(min(0.0, delta.item())) if torch.isfinite(delta) else 0.0
        if rng.random() < a:
            q = q_new
        if it < WARMUP:
            da.update(a)
            eps = da.eps if it < WARMUP - 1 else math.exp(da.logbar)
        else:
            draws.append(q)
            acc += a / DRAWS
    return torch.stack(draws), acc, eps


def main():
    torch.manual_seed(3)
    rng = random.Random(3)
    data = make_data(torch.Generator().manual_seed(3))
    t0 = time.perf_counter()
    q0 = 0.1 * torch.randn(DIM, dtype=torch.float64)
    draws, acc, eps = run_chain(data, q0, rng)
    dt = time.perf_counter() - t0
    print(f"{WARMUP + DRAWS} iterations in {dt:.1f}s, accept {acc:.2f}, step {eps:.4f}")
    post = {n: v for n, v in zip([n for n, _ in SIZES], draws.split([s for _, s in SIZES], 1))}
    for name in ("mu", "gamma", "slope", "beta"):
        m, s = post[name].mean(0), post[name].std(0)
        print(f"{name:6s}", " ".join(f"{a:+.3f}({b:.3f})" for a, b in zip(m, s)))
    print(f"sigma  {post['log_sigma'].exp().mean():.3f}   nu {1 + post['log_nu'].exp().mean():.2f}")


if __name__ == "__main__":
    main()
