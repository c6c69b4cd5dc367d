"""Magnetotelluric sounding: layered-earth inversion by differential evolution.

Forward problem: Wait's recursion for the surface impedance of an N-layer half space at all periods; the data are
apparent resistivity and phase. A population of models is evolved, then the posterior-like spread of the best ones
is printed per layer.
"""

import math

import torch

MU0 = 4e-7 * math.pi
N_LAYERS = 14
POP = 480
N_PERIODS = 40
GENERATIONS = 400


def periods():
    return torch.logspace(-3, 3, N_PERIODS, dtype=torch.float64)


def thicknesses():
    return torch.logspace(math.log10(40.0), math.log10(12_000.0), N_LAYERS - 1, dtype=torch.float64)


def surface_impedance(log_rho, h, omega):
    """log_rho [models, layers] (log10 ohm m) -> complex impedance [models, periods]."""
    sigma = 10.0 ** (-log_rho)
    iwm = 1j * omega * MU0
    k = torch.sqrt(iwm * sigma[:, -1:])
    z = iwm / k
    for j in range(h.numel() - 1, -1, -1):
        k = torch.sqrt(iwm * sigma[:, j : j + 1])
        z0 = iwm / k
        e = torch.exp(-2.0 * k * h[j])
        r = (z0 - z) / (z0 + z)
        z = z0 * (1.0 - r * e) / (1.0 + r * e)
    return z


def responses(z, omega):
    rho_a = z.abs() ** 2 / (MU0 * omega)
    phase = torch.angle(z) * 180.0 / math.pi
    return torch.log10(rho_a), phase


@torch.compile
def objective(log_rho, h, omega, d_rho, d_phase, s_rho, s_phase, beta):
    z = surface_impedance(log_rho, h, omega)
    rho, phase = responses(z, omega)
    chi = (((rho - d_rho) / s_rho) ** 2).mean(1) + (((phase - d_phase) / s_phase) ** 2).mean(1)
    rough = torch.diff(log_rho, dim=1).pow(2).sum(1)
    return chi + beta * rough, chi


class DifferentialEvolution:
    def __init__(self, lower, upper, pop, gen):
        self.lower, self.upper, self.gen = lower, upper, gen
        self.x = lower + (upper - lower) * torch.rand(pop, lower.numel(), generator=gen, dtype=torch.float64)
        self.cost = torch.full((pop,), float("inf"), dtype=torch.float64)
        self.chi = self.cost.clone()

    def propose(self):
        n, d = self.x.shape
        a, b = (torch.randperm(n, generator=self.gen) for _ in range(2))
        elite = self.cost.argsort()[: n // 10]
        best = self.x[elite[torch.randint(len(elite), (n,), generator=self.gen)]]
        f = 0.4 + 0.4 * torch.rand(n, 1, generator=self.gen, dtype=torch.float64)
        mutant = self.x + f * (best - self.x) + f * (self.x[a] - self.x[b])
        cross = torch.rand(n, d, generator=self.gen) < 0.85
        trial = torch.where(cross, mutant, self.x)
        return torch.minimum(torch.maximum(trial, self.lower), self.upper)

    def select(self, trial, cost, chi):
        better = cost < self.cost
        self.x[better] = trial[better]
        self.cost = torch.where(better, cost, self.cost)
        self.chi = torch.where(better, chi, self.chi)
        return int(better.sum())


def main():
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    t = periods()
    omega = 2.0 * math.pi / t
    h = thicknesses()

    # truth: resistive cover, a conductive aquifer / clay, resistive crust, conductive lower crust
    true = torch.tensor(
        [2.2, 2.2, 2.0, 1.3, 0.8, 0.8, 1.4, 2.2, 2.8, 3.0, 3.0, 2.6, 1.8, 1.5], dtype=torch.float64
    )
    rho, phase = responses(surface_impedance(true[None], h, omega), omega)
    s_rho, s_phase = 0.02, 1.2
    d_rho = rho[0] + s_rho * torch.randn(N_PERIODS, generator=gen, dtype=torch.float64)
    d_phase = phase[0] + s_phase * torch.randn(N_PERIODS, generator=gen, dtype=torch.float64)

    lower = torch.full((N_LAYERS,), -0.5, dtype=torch.float64)
    upper = torch.full((N_LAYERS,), 4.0, dtype=torch.float64)
    de = DifferentialEvolution(lower, upper, POP, gen)
    with torch.no_grad():
        de.cost, de.chi = objective(de.x, h, omega, d_rho, d_phase, s_rho, s_phase, 0.02)
        for g in range(1, GENERATIONS + 1):
            trial = de.propose()
            cost, chi = objective(trial, h, omega, d_rho, d_phase, s_rho, s_phase, 0.02)
            kept = de.select(trial, cost, chi)
            if g % 100 == 0:
                print(
                    f"generation {g:4d}: best cost {de.cost.min():.4f}, median {de.cost.median():.4f}, kept {kept}"
                )
    order = de.cost.argsort()[:50]
    mean, std = de.x[order].mean(0), de.x[order].std(0)
    print(f"best chi2 per datum {de.chi[order[0]] / 2:.3f}")
    print(f"rms error of log10 rho {(mean - true).pow(2).mean().sqrt():.3f}, mean spread {std.mean():.3f}")
    print("model:", [round(v, 2) for v in mean.tolist()])


if __name__ == "__main__":
    main()
