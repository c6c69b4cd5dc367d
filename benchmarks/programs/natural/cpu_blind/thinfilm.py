"""Reflectance of multilayer optical coatings by the characteristic-matrix method.

Candidate anti-reflection stacks (absorbing and dielectric layers on glass) are
improved by a small differential-evolution loop over the layer thicknesses; the
merit is the mean s/p reflectance over a wavelength and angle grid.
"""

import math
import time

import torch
from torch import nn


def cauchy(lam_um, a, b, k=0.0):
    n = a + b / lam_um**2
    return torch.complex(n, torch.full_like(n, -k) / lam_um)


class CoatingModel(nn.Module):
    """Materials alternate H, L, H, L, ... from the air side to the glass."""

    def __init__(self, n_layers=8, n_wl=96, n_angles=12):
        super().__init__()
        lam = torch.linspace(0.42, 0.70, n_wl)
        theta = torch.linspace(0.0, math.radians(50.0), n_angles)
        high = cauchy(lam, 2.22, 0.028, k=0.0011)
        low = cauchy(lam, 1.45, 0.0035)
        glass = cauchy(lam, 1.505, 0.0042)
        index = torch.stack([high if j % 2 == 0 else low for j in range(n_layers)])
        self.n_layers = n_layers
        self.register_buffer("lam", lam.view(1, n_wl, 1))
        self.register_buffer("sin0", torch.sin(theta).view(1, 1, n_angles))
        self.register_buffer("cos0", torch.cos(theta).view(1, 1, n_angles))
        self.register_buffer("index", index.view(n_layers, 1, n_wl, 1))
        self.register_buffer("glass", glass.view(1, n_wl, 1))

    def cos_in(self, n):
        return torch.sqrt(1.0 - (self.sin0 / n) ** 2)

    def admittance(self, n, cos, pol):
        return n * cos if pol == "s" else n / cos

    def polarised(self, thick, pol):
        a = d = b = c = None
        for j in range(self.n_layers):
            n = self.index[j]
            cos = self.cos_in(n)
            delta = 2.0 * math.pi * n * cos * thick[:, j, None, None] / self.lam
            eta = self.admittance(n, cos, pol)
            cd, sd = torch.cos(delta), torch.sin(delta)
            m11, m12, m21 = cd, 1j * sd / eta, 1j * sd * eta
            if a is None:
                a, b, c, d = m11, m12, m21, m11
            else:
                a, b, c, d = (a * m11 + b * m21, a * m12 + b * m11, c * m11 + d * m21, c * m12 + d * m11)
        eta_s = self.admittance(self.glass, self.cos_in(self.glass), pol)
        eta_0 = self.cos0 if pol == "s" else 1.0 / self.cos0
        top = a + b * eta_s
        bot = c + d * eta_s
        r = (eta_0 * top - bot) / (eta_0 * top + bot)
        return r.abs() ** 2

    def forward(self, thick):
        refl = 0.5 * (self.polarised(thick, "s") + self.polarised(thick, "p"))
        return refl.mean(dim=(1, 2)), refl.amax(dim=(1, 2))


def propose(pop, g, f=0.6, cr=0.8):
    n = len(pop)
    i = torch.stack([torch.randperm(n, generator=g) for _ in range(3)])
    trial = pop[i[0]] + f * (pop[i[1]] - pop[i[2]])
    keep = torch.rand(pop.shape, generator=g) > cr
    return torch.where(keep, pop, trial).clamp(0.005, 0.25)


def merit(mean, peak):
    return mean + 0.1 * peak


@torch.no_grad()
def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(8)
    model = CoatingModel()
    evaluate = torch.compile(model)

    bare = ((model.glass.abs() - 1) / (model.glass.abs() + 1)) ** 2
    pop = 0.01 + 0.12 * torch.rand(24, model.n_layers, generator=g)
    zero_mean, _ = evaluate(torch.zeros_like(pop))
    for _ in range(3):
        score = merit(*evaluate(pop))
    start = score.min().item()

    gens = 60
    t0 = time.perf_counter()
    for _ in range(gens):
        trial = propose(pop, g)
        s = merit(*evaluate(trial))
        better = s < score
        pop = torch.where(better[:, None], trial, pop)
        score = torch.where(better, s, score)
    dt = (time.perf_counter() - t0) / gens

    best = score.argmin()
    assert zero_mean.mean().item() > bare.mean().item() * 0.9
    assert score.min().item() < start
    print(f"bare glass {bare.mean().item():.4f}, merit {start:.4f} -> {score.min().item():.4f}")
    print("stack (nm):", [round(v * 1e3) for v in pop[best].tolist()])
    print(f"{dt * 1e3:.2f} ms per call")


if __name__ == "__main__":
    main()
