"""Broadband anti-reflection coating design by gradient descent on thicknesses.

Characteristic-matrix (Abeles) formalism, both polarisations, several angles of
incidence, dispersive SiO2/TiO2 stack on BK7; many random starts in parallel.
"""

import time

import numpy as np
import torch

torch.set_default_dtype(torch.float32)


def sellmeier_sio2(um):
    u2 = um**2
    n2 = 1 + 0.6961663 * u2 / (u2 - 0.0684043**2) + 0.4079426 * u2 / (u2 - 0.1162414**2)
    return np.sqrt(n2 + 0.8974794 * u2 / (u2 - 9.896161**2))


def cauchy_tio2(um):
    return 2.20 + 0.026 / um**2 + 0.0032 / um**4 - 1j * 2e-4 * np.exp(-(um - 0.38) / 0.05)


def sellmeier_bk7(um):
    u2 = um**2
    n2 = 1 + 1.03961212 * u2 / (u2 - 0.00600069867) + 0.231792344 * u2 / (u2 - 0.0200179144)
    return np.sqrt(n2 + 1.01046945 * u2 / (u2 - 103.560653))


class Stack:
    def __init__(self, n_layers, wavelengths_um, angles_deg):
        wl = np.asarray(wavelengths_um)
        mats = [cauchy_tio2(wl), sellmeier_sio2(wl).astype(complex)]
        n = np.stack([mats[i % 2] for i in range(n_layers)])
        self.n = torch.tensor(n, dtype=torch.complex64)[:, None, :]
        self.n_sub = torch.tensor(sellmeier_bk7(wl), dtype=torch.complex64)[None]
        sin0 = torch.tensor(np.sin(np.deg2rad(angles_deg)), dtype=torch.float32)[:, None]
        self.cos0 = torch.sqrt(1 - sin0**2)
        self.cos = torch.sqrt(1 - (sin0 / self.n) ** 2)
        self.cos_sub = torch.sqrt(1 - (sin0 / self.n_sub) ** 2)
        self.k0 = torch.tensor(2 * np.pi / wl, dtype=torch.float32)[None]

    def admittances(self, pol):
        if pol == "s":
            return self.n * self.cos, self.n_sub * self.cos_sub, self.cos0
        return self.n / self.cos, self.n_sub / self.cos_sub, 1 / self.cos0

    def reflectance(self, d, pol):
        """d: (designs, layers) in um -> R: (designs, angles, wavelengths)"""
        eta, eta_sub, eta0 = self.admittances(pol)
        m = None
        for j in range(d.shape[1]):
            delta = self.k0 * self.n[j] * self.cos[j] * d[:, j, None, None]
            c, s = torch.cos(delta), torch.sin(delta)
            row0 = torch.stack([c, 1j * s / eta[j]], dim=-1)
            row1 = torch.stack([1j * s * eta[j], c], dim=-1)
            layer = torch.stack([row0, row1], dim=-2)
            m = layer if m is None else m @ layer
        b = m[..., 0, 0] + m[..., 0, 1] * eta_sub
        cc = m[..., 1, 0] + m[..., 1, 1] * eta_sub
        r = (eta0 * b - cc) / (eta0 * b + cc)
        return r.abs() ** 2


def make_merit(stack, weight):
    def merit(raw):
        d = 0.012 + 0.16 * torch.sigmoid(raw)
        r = 0.5 * (stack.reflectance(d, "s") + stack.reflectance(d, "p"))
        per_design = (r * weight).sum(dim=(-1, -2)) / weight.sum()
        ripple = r[:, 0].std(dim=-1)
        return per_design + 0.1 * ripple

    return merit


def main():
    torch.manual_seed(4)
    wl = np.linspace(0.42, 0.70, 81)
    angles = [0.0, 15.0, 30.0, 45.0]
    stack = Stack(10, wl, angles)
    weight = torch.exp(-(((torch.tensor(wl, dtype=torch.float32) - 0.55) / 0.18) ** 2)).expand(
        len(angles), -1
    )
    merit = torch.compile(make_merit(stack, weight))

    raw = torch.randn(16, 10, requires_grad=True)
    opt = torch.optim.Adam([raw], lr=0.05)
    times = []
    for it in range(100):
        t0 = time.perf_counter()
        f = merit(raw)
        opt.zero_grad()
        f.sum().backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if it % 25 == 0:
            print(f"iter {it:3d}: best mean R {100 * f.min().item():.3f} %")
    best = int(f.argmin())
    d = 1000 * (0.012 + 0.16 * torch.sigmoid(raw[best])).detach().numpy()
    print("best design (nm):", np.round(d, 1))
    print(f"mean R {100 * f[best].item():.3f} %, {1e3 * np.median(times[10:]):.1f} ms/iteration")


if __name__ == "__main__":
    main()
