"""Jet lag of a slice of the suprachiasmatic nucleus (SCN).

Each cell is a Goodwin-type oscillator (Gonze et al. 2005) with its own period,
coupled through the neuropeptide V that the neighbours release.  Five days with
light from 8 to 20 h, then the light schedule jumps by 8 hours.  Integrated with
Dormand-Prince 5(4) and adaptive steps, because just after the light is switched
on the right hand side is stiff-ish and a fixed step wastes a lot.
"""

import math
import time

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

ROWS, COLS = 160, 160
INTERVAL = 1.0  # hours between two recordings (one call of integrate)
RTOL, ATOL = 1e-6, 1e-8

A = [
    [],
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
E = [71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]

# Gonze 2005, table 1
P = dict(
    v1=0.7,
    K1=1.0,
    v2=0.35,
    K2=1.0,
    k3=0.7,
    v4=0.35,
    K4=1.0,
    k5=0.7,
    v6=0.35,
    K6=1.0,
    k7=0.35,
    v8=1.0,
    K8=1.0,
    vc=0.4,
    Kc=1.0,
    coupling=0.5,
)


def neighbours(v):
    """Mean of V over the 5x5 surroundings (diffusion is fast at this range)."""
    v = F.pad(v[None, None], (2, 2, 2, 2), mode="circular")
    return F.avg_pool2d(v, 5, stride=1)[0, 0]


def scn_rhs(y, tempo, light):
    m, p, r, v = y.unbind(0)
    field = P["coupling"] * neighbours(v)
    dm = (
        P["v1"] / (1 + (r / P["K1"]) ** 4)
        - P["v2"] * m / (P["K2"] + m)
        + P["vc"] * field / (P["Kc"] + field)
        + light
    )
    dp = P["k3"] * m - P["v4"] * p / (P["K4"] + p)
    dr = P["k5"] * p - P["v6"] * r / (P["K6"] + r)
    dv = P["k7"] * m - P["v8"] * v / (P["K8"] + v)
    return torch.stack([dm, dp, dr, dv]) * tempo


@torch.compile
def integrate(y, tempo, light, span, h):
    """Advance y by `span` hours. Returns the new state, the step to start with next time, and statistics."""
    t = 0.0
    accepted = rejected = 0
    k1 = scn_rhs(y, tempo, light)
    while t < span - 1e-9:
        h = min(h, span - t)
        k = [k1]
        for stage in range(1, 7):
            dy = torch.zeros_like(y)
            for a, kk in zip(A[stage], k):
                if a != 0.0:
                    dy = dy + a * kk
            y_new = y + h * dy
            k.append(scn_rhs(y_new, tempo, light))
        err = torch.zeros_like(y)
        for e, kk in zip(E, k):
            if e != 0.0:
                err = err + e * kk
        tol = ATOL + RTOL * torch.maximum(y.abs(), y_new.abs())
        norm = ((h * err / tol) ** 2).mean().sqrt().item()
        if norm <= 1.0:
            t += h
            y, k1 = y_new, k[-1]
            accepted += 1
        else:
            rejected += 1
        h = h * min(4.0, max(0.2, 0.9 * (norm + 1e-8) ** -0.2))
    return y, h, accepted, rejected


def light_at(hour, shift_at=120.0, shift=8.0):
    """Light intensity on the ventral half, with the schedule moved after `shift_at`."""
    local = (hour + shift if hour >= shift_at else hour) % 24.0
    return 0.02 if 8.0 <= local < 20.0 else 0.0


def order_parameter(y):
    """Synchrony: variance of the mean over the mean of the variance is slow, so use the phase of (m, p)."""
    m, p = y[0], y[1]
    phase = torch.atan2(p - p.mean(), m - m.mean())
    return float(torch.hypot(torch.cos(phase).mean(), torch.sin(phase).mean()))


@torch.no_grad()
def main():
    torch.manual_seed(3)
    tempo = 1.0 + 0.05 * torch.randn(ROWS, COLS)
    tempo = tempo.clamp(0.85, 1.15)
    y = torch.rand(4, ROWS, COLS) * torch.tensor([0.3, 0.5, 1.5, 0.3]).view(4, 1, 1) + 0.05
    ventral = (torch.arange(ROWS) > ROWS // 2).double()[:, None].expand(ROWS, COLS).contiguous()

    hours, h, trace, steps, rejects = 240.0, 0.1, [], 0, 0
    t0 = time.perf_counter()
    for i in range(int(hours / INTERVAL)):
        now = i * INTERVAL
        y, h, acc, rej = integrate(y, tempo, light_at(now) * ventral, INTERVAL, h)
        steps, rejects = steps + acc, rejects + rej
        trace.append(float(y[0].mean()))
        if (i + 1) % 24 == 0:
            print(
                f"{now + INTERVAL:6.1f} h  mean mRNA {trace[-1]:.4f}  spread {float(y[0].std()):.4f}  "
                f"R {order_parameter(y):.3f}  {steps} steps ({rejects} rejected)  {time.perf_counter() - t0:.1f} s"
            )
    late = torch.tensor(trace[-120:])
    power = torch.fft.rfft(late - late.mean()).abs() ** 2
    main_period = len(late) * INTERVAL / max(1, int(power.argmax()))
    print(f"dominant period of the tissue: {main_period:.1f} h")
    assert torch.isfinite(y).all() and math.isfinite(main_period)


if __name__ == "__main__":
    main()
