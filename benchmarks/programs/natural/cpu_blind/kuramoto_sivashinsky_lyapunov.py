"""Lyapunov spectrum of the Kuramoto-Sivashinsky flame-front equation with an exponential time-differencing scheme."""

import math
from typing import NamedTuple

import torch

torch.set_num_threads(2)
torch.set_default_dtype(torch.float64)


class Scheme(NamedTuple):
    e: torch.Tensor
    e2: torch.Tensor
    q: torch.Tensor
    f1: torch.Tensor
    f2: torch.Tensor
    f3: torch.Tensor
    ik: torch.Tensor
    mask: torch.Tensor


def make_scheme(n: int, length: float, h: float, roots: int = 32) -> Scheme:
    k = 2 * math.pi / length * torch.arange(n // 2 + 1)
    lin = k**2 - k**4
    angle = math.pi * (torch.arange(roots) + 0.5) / roots
    r = torch.polar(torch.ones(roots), angle)
    lr = h * lin[:, None] + r[None, :]
    q = h * ((torch.exp(lr / 2) - 1) / lr).mean(1).real
    f1 = h * ((-4 - lr + torch.exp(lr) * (4 - 3 * lr + lr**2)) / lr**3).mean(1).real
    f2 = h * ((2 + lr + torch.exp(lr) * (-2 + lr)) / lr**3).mean(1).real
    f3 = h * ((-4 - 3 * lr - lr**2 + torch.exp(lr) * (4 - lr)) / lr**3).mean(1).real
    mask = (torch.arange(n // 2 + 1) < n // 3).to(torch.float64)
    return Scheme(torch.exp(h * lin), torch.exp(h * lin / 2), q, f1, f2, f3, 1j * k, mask)


def nonlinear(uh, vh, s: Scheme, n: int):
    """Advection term of the base flow and of its tangent vectors, both in Fourier space."""
    u = torch.fft.irfft(uh, n=n)
    v = torch.fft.irfft(vh, n=n)
    base = -0.5 * s.ik * torch.fft.rfft(u * u) * s.mask
    tangent = -s.ik * torch.fft.rfft(u.unsqueeze(1) * v) * s.mask
    return base, tangent


@torch.compile
def etdrk4(uh, vh, s: Scheme, n: int):
    nu, nv = nonlinear(uh, vh, s, n)
    au = s.e2 * uh + s.q * nu
    av = s.e2 * vh + s.q * nv
    nau, nav = nonlinear(au, av, s, n)
    bu = s.e2 * uh + s.q * nau
    bv = s.e2 * vh + s.q * nav
    nbu, nbv = nonlinear(bu, bv, s, n)
    cu = s.e2 * au + s.q * (2 * nbu - nu)
    cv = s.e2 * av + s.q * (2 * nbv - nv)
    ncu, ncv = nonlinear(cu, cv, s, n)
    uh = s.e * uh + s.f1 * nu + 2 * s.f2 * (nau + nbu) + s.f3 * ncu
    vh = s.e * vh + s.f1 * nv + 2 * s.f2 * (nav + nbv) + s.f3 * ncv
    return uh, vh


def orthonormalise(vh, n: int):
    v = torch.fft.irfft(vh, n=n).transpose(1, 2)
    q, r = torch.linalg.qr(v)
    growth = torch.diagonal(r, dim1=1, dim2=2).abs().log()
    return torch.fft.rfft(q.transpose(1, 2)), growth


def kaplan_yorke(spectrum: torch.Tensor) -> float:
    cumulative = spectrum.cumsum(0)
    positive = (cumulative > 0).nonzero()
    if len(positive) == 0:
        return 0.0
    j = int(positive[-1])
    if j + 1 == len(spectrum):
        return float(j + 1)
    return j + 1 + float(cumulative[j] / spectrum[j + 1].abs())


def main():
    torch.manual_seed(11)
    n, length, h = 128, 44.0, 0.1
    members, tangents = 12, 16
    scheme = make_scheme(n, length, h)
    x = torch.arange(n) * length / n
    phase = 2 * math.pi * torch.rand(members, 1)
    u = torch.cos(2 * math.pi * x / length + phase) + 0.1 * torch.randn(members, n)
    uh = torch.fft.rfft(u) * scheme.mask
    vh = torch.fft.rfft(torch.randn(members, tangents, n)) * scheme.mask

    total = torch.zeros(members, tangents)
    spin_up, steps, every = 600, 1800, 10
    for i in range(spin_up + steps):
        uh, vh = etdrk4(uh, vh, scheme, n)
        if (i + 1) % every == 0:
            vh, growth = orthonormalise(vh, n)
            if i >= spin_up:
                total += growth
    exponents = total / (steps * h)
    mean = exponents.mean(0)
    print("leading exponents", [round(float(e), 3) for e in mean[:8]])
    print("spread over members", round(float(exponents[:, 0].std()), 4))
    print("Kaplan-Yorke dimension", round(kaplan_yorke(mean), 2))


if __name__ == "__main__":
    main()
