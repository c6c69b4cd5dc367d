"""Generalised Lomb-Scargle periodograms of survey light curves (variable stars)."""

import math
import time

import torch

torch.manual_seed(23)

N_STARS = 30
N_OBS = 900
N_FREQ = 4000
F_MIN, F_MAX = 0.05, 8.0  # cycles per day


@torch.compile
def gls_power(t, y, dy, freqs):
    """Zechmeister & Kuerster (2009), floating mean."""
    w = 1.0 / dy**2
    w = w / w.sum()
    t = t - t[0]
    phase = 2 * math.pi * torch.frac(freqs[:, None] * t[None, :])
    c = torch.cos(phase)
    s = torch.sin(phase)

    Y = (w * y).sum()
    C = (w * c).sum(1)
    S = (w * s).sum(1)
    YY = (w * y * y).sum() - Y * Y
    YC = (w * y * c).sum(1) - Y * C
    YS = (w * y * s).sum(1) - Y * S
    CC = (w * c * c).sum(1) - C * C
    SS = (w * s * s).sum(1) - S * S
    CS = (w * c * s).sum(1) - C * S
    D = CC * SS - CS * CS
    power = (SS * YC**2 + CC * YS**2 - 2 * CS * YC * YS) / (YY * D)
    amp = torch.sqrt(((YC * SS - YS * CS) / D) ** 2 + ((YS * CC - YC * CS) / D) ** 2)
    return power, amp


def observe(period, amp, gen):
    nights = torch.randint(0, 120, (N_OBS,), generator=gen).float()
    t = (nights + 0.3 + 0.35 * torch.rand(N_OBS, generator=gen)).sort().values
    ph = 2 * math.pi * t / period
    y = 15.2 + amp * (torch.sin(ph) + 0.3 * torch.sin(2 * ph + 0.7))
    dy = 0.01 + 0.03 * torch.rand(N_OBS, generator=gen)
    return t, y + dy * torch.randn(N_OBS, generator=gen), dy


def false_alarm_probability(p, n_eff):
    prob = (1 - p) ** ((N_OBS - 3) / 2)
    return -math.expm1(n_eff * math.log1p(-min(prob, 1 - 1e-12)))


def main():
    gen = torch.Generator().manual_seed(99)
    freqs = torch.linspace(F_MIN, F_MAX, N_FREQ)
    periods = 0.25 + 3.0 * torch.rand(N_STARS, generator=gen)
    amps = 0.02 + 0.3 * torch.rand(N_STARS, generator=gen)
    hits, times = 0, []
    for k in range(N_STARS):
        t, y, dy = observe(periods[k], amps[k], gen)
        t0 = time.perf_counter()
        power, amp = gls_power(t, y, dy, freqs)
        best = int(power.argmax())
        times.append(time.perf_counter() - t0)
        f_true = 1.0 / periods[k].item()
        f_best = freqs[best].item()
        hits += abs(f_best - f_true) < 0.005
        if k % 10 == 0:
            fap = false_alarm_probability(power[best].item(), N_FREQ)
            print(
                f"star {k:3d}  P_true {periods[k]:.4f} d  P_found {1 / f_best:.4f} d  "
                f"amp {amp[best]:.3f}  power {power[best]:.3f}  FAP {fap:.1e}"
            )
    print(f"recovered {hits}/{N_STARS}")
    print(f"{sorted(times)[N_STARS // 2] * 1e3:.1f} ms per star")


if __name__ == "__main__":
    main()
