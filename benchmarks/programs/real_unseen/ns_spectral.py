"""Simulates decaying 2-D turbulence with a dealiased pseudo-spectral vorticity solver and Runge-Kutta stepping under torch.compile."""

import math

import torch


def wavenumbers(n, device):
    k = torch.fft.fftfreq(n, 1.0 / n, device=device)
    kr = torch.fft.rfftfreq(n, 1.0 / n, device=device)
    ky, kx = torch.meshgrid(k, kr, indexing="ij")
    k2 = kx**2 + ky**2
    inv = torch.where(k2 > 0, 1.0 / k2.clamp(min=1.0), torch.zeros_like(k2))
    mask = ((kx.abs() < n / 3) & (ky.abs() < n / 3)).float()
    return kx, ky, k2, inv, mask


def rhs(wh, kx, ky, k2, inv, mask, nu: float):
    n = wh.shape[-2]
    psi = wh * inv
    u = torch.fft.irfft2(1j * ky * psi, s=(n, n))
    v = torch.fft.irfft2(-1j * kx * psi, s=(n, n))
    wx = torch.fft.irfft2(1j * kx * wh, s=(n, n))
    wy = torch.fft.irfft2(1j * ky * wh, s=(n, n))
    adv = torch.fft.rfft2(u * wx + v * wy)
    return -mask * adv - nu * k2 * wh


@torch.compile
def rk4_step(wh, kx, ky, k2, inv, mask, dt: float, nu: float):
    a = rhs(wh, kx, ky, k2, inv, mask, nu)
    b = rhs(wh + 0.5 * dt * a, kx, ky, k2, inv, mask, nu)
    c = rhs(wh + 0.5 * dt * b, kx, ky, k2, inv, mask, nu)
    d = rhs(wh + dt * c, kx, ky, k2, inv, mask, nu)
    return wh + dt / 6 * (a + 2 * b + 2 * c + d)


@torch.compile
def diagnostics(wh, inv, n: int):
    w = torch.fft.irfft2(wh, s=(n, n))
    psi = torch.fft.irfft2(wh * inv, s=(n, n))
    energy = 0.5 * (w * psi).mean((-2, -1))
    enstrophy = 0.5 * (w**2).mean((-2, -1))
    return energy, enstrophy


def initial(batch, n, k2, gen):
    phase = 2 * math.pi * torch.rand(batch, *k2.shape, device="cuda", generator=gen)
    k = k2.sqrt()
    amp = k * torch.exp(-((k - 6.0) ** 2) / 8.0)
    w = torch.fft.irfft2(torch.polar(amp.expand_as(phase).contiguous(), phase), s=(n, n))
    w = w / w.std((-2, -1), keepdim=True) * 4.0
    return torch.fft.rfft2(w)


@torch.no_grad()
def main():
    n, batch = 512, 4
    gen = torch.Generator(device="cuda").manual_seed(15)
    consts = wavenumbers(n, "cuda")
    wh = initial(batch, n, consts[2], gen)
    wh[:, 0, 0] = 0
    e0, z0 = diagnostics(wh, consts[3], n)
    for step in range(40):
        wh = rk4_step(wh, *consts, 2e-3, 5e-4)
    e1, z1 = diagnostics(wh, consts[3], n)
    print("energy ratio %.5f" % (e1 / e0).mean().item())
    print("enstrophy ratio %.5f" % (z1 / z0).mean().item())


if __name__ == "__main__":
    main()
