"""Direction-independent gain calibration of a radio interferometer (StEFCal):
solve V_pq = g_p M_pq conj(g_q) for the antenna gains, per channel."""

import time

import torch

torch.set_num_threads(2)

N_ANT = 112
N_CHAN = 32
N_ITER = 20
C_LIGHT = 299_792_458.0


def antenna_layout(gen):
    r = 2000.0 * torch.rand(N_ANT, generator=gen) ** 2
    th = 2 * torch.pi * torch.rand(N_ANT, generator=gen)
    return torch.stack([r * torch.cos(th), r * torch.sin(th)], 1)


def model_visibilities(xy, lm, flux, freqs, hour):
    c, s = torch.cos(torch.tensor(hour)), torch.sin(torch.tensor(hour))
    rot = torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
    delay = (xy @ rot.T) @ lm.T / C_LIGHT  # (ant, src)
    phase = 2 * torch.pi * freqs[:, None, None] * delay  # (chan, ant, src)
    k = torch.polar(torch.ones_like(phase), phase)
    return torch.einsum("cps,s,cqs->cpq", k, flux.to(k.dtype), k.conj())


def true_gains(gen):
    amp = 1 + 0.2 * torch.randn(N_CHAN, N_ANT, generator=gen)
    ph = 0.6 * torch.randn(1, N_ANT, generator=gen) + 0.1 * torch.randn(N_CHAN, N_ANT, generator=gen)
    return torch.polar(amp.clamp_min(0.3), ph)


def observe(g, model, noise, gen):
    v = g[:, :, None] * model * g[:, None, :].conj()
    n = torch.randn(v.shape, dtype=v.dtype, generator=gen)
    n = torch.triu(n, 1)
    return v + noise * (n + n.transpose(1, 2).conj())


@torch.compile
def stefcal(vis, model, weight, g):
    """vis, model (chan, ant, ant) complex; weight (chan, ant, ant); g start gains."""
    vw = vis * weight
    change = None
    for it in range(N_ITER):
        z = g[:, :, None] * model.transpose(1, 2).conj()
        num = (vw.transpose(1, 2) * z).sum(1)
        den = (weight * z.abs() ** 2).sum(1)
        g_new = num / den.clamp_min(1e-6)
        if it % 2 == 1:
            g_new = 0.5 * (g_new + g)
        change = (g_new - g).abs().square().sum(1) / g_new.abs().square().sum(1)
        g = g_new
    ref = g[:, :1]
    g = g * (ref.conj() / ref.abs())
    residual = vis - g[:, :, None] * model * g[:, None, :].conj()
    chi2 = (weight * residual.abs() ** 2).sum((1, 2)) / weight.sum((1, 2))
    return g, chi2, change.sqrt()


def main():
    gen = torch.Generator().manual_seed(42)
    xy = antenna_layout(gen)
    freqs = torch.linspace(1.30e9, 1.31e9, N_CHAN)
    lm = 0.002 * torch.randn(12, 2, generator=gen)
    flux = torch.rand(12, generator=gen) * 2 + 0.2
    gains = true_gains(gen)

    weight = (torch.rand(N_CHAN, N_ANT, N_ANT, generator=gen) > 0.05).float()
    weight = torch.triu(weight, 1)
    weight = weight + weight.transpose(1, 2)

    intervals = []
    for t in range(12):
        m = model_visibilities(xy, lm, flux, freqs, 0.03 * t)
        intervals.append((observe(gains, m, 0.3, gen), m))

    unit = torch.ones(N_CHAN, N_ANT, dtype=torch.complex64)
    for vis, m in intervals[:2]:
        stefcal(vis, m, weight, unit)

    start = time.perf_counter()
    for t, (vis, m) in enumerate(intervals):
        g, chi2, change = stefcal(vis, m, weight, unit)
        if t % 4 == 0:
            ref = gains[:, :1]
            err = (g - gains * (ref.conj() / ref.abs())).abs().mean()
            print(f"t={t:2d} gain error {err:.4f}  chi2 {chi2.mean():.4f}  last change {change.max():.1e}")
    dt = time.perf_counter() - start
    print(f"{1e3 * dt / len(intervals):.1f} ms per solution interval")


if __name__ == "__main__":
    main()
