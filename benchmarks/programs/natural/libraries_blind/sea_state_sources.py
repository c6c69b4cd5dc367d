"""Growth of a wind sea over a bay: spectral source terms (wind input, white-capping, bottom friction).

The energy density E[point, frequency, direction] is advanced with semi-implicit source term integration, as in the
deep and shallow physics of third generation wave models (no advection: each point has its own wind history).
The index gymnastics are written with einx.
"""

import math
import time

import einx
import torch

G = 9.81
POINTS, FREQS, DIRS = 4000, 28, 36
DT, STEPS = 60.0, 90


def make_grid():
    f = 0.05 * 1.1 ** torch.arange(FREQS)
    theta = torch.arange(DIRS) * (2 * math.pi / DIRS)
    df = f * (1.1**0.5 - 1.1**-0.5)
    return f, theta, df, 2 * math.pi / DIRS


def wavenumber(sigma, depth, iters=6):
    """Newton iterations on the dispersion relation for every point and frequency."""
    omega2 = einx.multiply("f, f -> f", sigma, sigma)
    k = einx.divide("f, p -> p f", omega2 / G, torch.tanh(depth).clamp(min=0.3))
    for _ in range(iters):
        kd = einx.multiply("p f, p -> p f", k, depth)
        th = torch.tanh(kd)
        res = einx.subtract("p f, f -> p f", G * k * th, omega2)
        k = k - res / (G * (th + kd * (1 - th * th)))
    return k


@torch.compile
def source_step(E, k, sigma, theta, df, dtheta, wind, wind_dir, depth, dt):
    # bulk parameters of the spectrum
    area = df * dtheta
    e_tot = einx.sum("p [f d]", einx.multiply("p f d, f -> p f d", E, area)) + 1e-9
    e_sig = einx.sum("p [f d]", einx.multiply("p f d, f -> p f d", E, area * sigma))
    e_k = einx.sum(
        "p [f d]",
        einx.multiply("p f d, p f -> p f d", einx.multiply("p f d, f -> p f d", E, area), torch.rsqrt(k)),
    )
    sigma_m = e_sig / e_tot
    k_m = (e_tot / e_k.clamp(min=1e-9)) ** 2
    steep = k_m * torch.sqrt(e_tot)

    # wind input (Komen): linear Phillips term and exponential growth
    ustar = wind * torch.sqrt((0.8 + 0.065 * wind) * 1e-3)
    c = einx.divide("f, p f -> p f", sigma, k)
    cosine = torch.cos(einx.subtract("d, p -> p d", theta, wind_dir))
    ratio = einx.divide("p, p f -> p f", 28.0 * ustar, c)
    drive = einx.multiply("p f, p d -> p f d", ratio, cosine) - 1.0
    growth = einx.multiply("f, p f d -> p f d", 0.25 * 1.25e-3 * sigma, drive.clamp(min=0.0))
    f_pm = 2 * math.pi * 0.13 * G / (28.0 * ustar)
    cut = torch.exp(-((einx.divide("p, f -> p f", f_pm, sigma)) ** 4))
    push = einx.multiply("p, p d -> p d", ustar, cosine.clamp(min=0.0)) ** 4
    linear = 1.5e-3 / (2 * math.pi * G**2) * einx.multiply("p f, p d -> p f d", cut, push)

    # white-capping and bottom friction (JONSWAP)
    whitecap = einx.multiply("p, p f -> p f", 2.36e-5 * sigma_m * (steep / 0.0552) ** 4 / k_m, k)
    kd = einx.multiply("p f, p -> p f", k, depth).clamp(max=15.0)
    friction = 0.038 / G**2 * einx.divide("f, p f -> p f", sigma, torch.sinh(kd)) ** 2
    decay = whitecap + friction

    # semi-implicit update with the growth limiter
    net = einx.subtract("p f d, p f -> p f d", growth, decay)
    delta = dt * (linear + net * E) / (1.0 - 0.5 * dt * net.clamp(max=0.0))
    limit = 0.1 * 0.0081 / einx.multiply("f, p f -> p f", sigma, k**3 * c)
    delta = einx.minimum("p f d, p f -> p f d", delta, limit)
    delta = einx.maximum("p f d, p f -> p f d", delta, -limit)
    return (E + delta).clamp(min=0.0)


def statistics(E, f, theta, df, dtheta):
    spectrum = einx.sum("p f [d]", E) * dtheta
    hs = 4 * torch.sqrt(einx.dot("p [f], [f] -> p", spectrum, df))
    tp = 1 / f[spectrum.argmax(1)]
    energy_dir = einx.dot("p [f] d, [f] -> p d", E, df)
    mean_dir = torch.atan2(energy_dir @ torch.sin(theta), energy_dir @ torch.cos(theta))
    return hs, tp, mean_dir


def main():
    torch.manual_seed(0)
    f, theta, df, dtheta = make_grid()
    sigma = 2 * math.pi * f
    depth = 3 + 27 * torch.rand(POINTS)
    k = wavenumber(sigma, depth)
    base = 8 + 6 * torch.rand(POINTS)
    heading = 2 * math.pi * torch.rand(POINTS)
    E = torch.full((POINTS, FREQS, DIRS), 1e-8)

    start = time.perf_counter()
    for step in range(STEPS):
        hour = step * DT / 3600
        wind = base * (1 + 0.25 * math.sin(2 * math.pi * hour / 1.5)) + 0.3 * torch.randn(POINTS)
        wind_dir = heading + 0.3 * hour
        E = source_step(E, k, sigma, theta, df, dtheta, wind, wind_dir, depth, DT)
        if step % 30 == 29:
            hs, tp, mean_dir = statistics(E, f, theta, df, dtheta)
            off = torch.atan2(torch.sin(mean_dir - wind_dir), torch.cos(mean_dir - wind_dir))
            print(
                f"{hour * 60:4.0f} min: Hs {hs.mean():.2f} m (max {hs.max():.2f}), Tp {tp.mean():.1f} s, "
                f"direction error {off.abs().mean():.2f} rad"
            )
    print(f"{STEPS} steps in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
