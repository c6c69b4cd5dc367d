"""Dynamic simulation of a binary distillation column (Skogestad's "column A") under many feed upsets at once.

41 stages, constant relative volatility, linear tray hydraulics; LV configuration, levels under P control, product
compositions under PI control. Each scenario has its own disturbances and controller tuning.
"""

import torch

NT = 41  # stages, reboiler is 0, total condenser is NT-1
NF = 20  # feed stage
ALPHA = 1.5
F0, ZF0, QF = 1.0, 0.5, 1.0
L0, V0 = 2.70629, 3.20629
D0 = B0 = 0.5
MN = 0.5  # nominal holdup, kmol
TAUL = 0.063  # tray time constant, min
LAMBDA = 0.0  # effect of vapour flow on liquid flow
LREF_ABOVE, LREF_BELOW = L0, L0 + QF * F0
SCENARIOS = 5000
DT = 0.05  # min
STEPS = 500


def column_rhs(x, m, lt, vb, d, b, f, zf):
    """Time derivatives of liquid compositions and holdups; x and m are [scenarios, NT]."""
    y = ALPHA * x[:, :-1] / (1.0 + (ALPHA - 1.0) * x[:, :-1])
    v = vb[:, None].expand(-1, NT - 1)

    liq = torch.zeros_like(x)
    liq[:, 1 : NF + 1] = LREF_BELOW + (m[:, 1 : NF + 1] - MN) / TAUL + LAMBDA * (v[:, :NF] - V0)
    liq[:, NF + 1 : NT - 1] = LREF_ABOVE + (m[:, NF + 1 : NT - 1] - MN) / TAUL
    liq[:, NT - 1] = lt

    dm = torch.zeros_like(m)
    dmx = torch.zeros_like(m)
    dm[:, 1:-1] = liq[:, 2:] - liq[:, 1:-1] + v[:, :-1] - v[:, 1:]
    dmx[:, 1:-1] = (
        liq[:, 2:] * x[:, 2:] - liq[:, 1:-1] * x[:, 1:-1] + v[:, :-1] * y[:, :-1] - v[:, 1:] * y[:, 1:]
    )
    dm[:, NF] += f
    dmx[:, NF] += f * zf
    dm[:, 0] = liq[:, 1] - vb - b
    dmx[:, 0] = liq[:, 1] * x[:, 1] - vb * y[:, 0] - b * x[:, 0]
    dm[:, -1] = v[:, -1] - lt - d
    dmx[:, -1] = v[:, -1] * y[:, -1] - lt * x[:, -1] - d * x[:, -1]
    dx = (dmx - x * dm) / m
    return dx, dm


@torch.compile
def advance(x, m, integ, tuning, f, zf):
    """One RK4 step with the controls held."""
    kc_d, ti_d, kc_b, ti_b = tuning
    err_d = 0.99 - x[:, -1]
    err_b = 0.01 - x[:, 0]
    int_d = integ[0] + err_d * DT
    int_b = integ[1] + err_b * DT
    lt = (L0 + kc_d * (err_d + int_d / ti_d)).clamp(0.5, 6.0)
    vb = (V0 - kc_b * (err_b + int_b / ti_b)).clamp(0.5, 6.5)
    d = (D0 + 10.0 * (m[:, -1] - MN)).clamp(min=0.0)
    b = (B0 + 10.0 * (m[:, 0] - MN)).clamp(min=0.0)

    k1x, k1m = column_rhs(x, m, lt, vb, d, b, f, zf)
    k2x, k2m = column_rhs(x + 0.5 * DT * k1x, m + 0.5 * DT * k1m, lt, vb, d, b, f, zf)
    k3x, k3m = column_rhs(x + 0.5 * DT * k2x, m + 0.5 * DT * k2m, lt, vb, d, b, f, zf)
    k4x, k4m = column_rhs(x + DT * k3x, m + DT * k3m, lt, vb, d, b, f, zf)
    x = x + DT / 6.0 * (k1x + 2.0 * k2x + 2.0 * k3x + k4x)
    m = m + DT / 6.0 * (k1m + 2.0 * k2m + 2.0 * k3m + k4m)
    return x.clamp(0.0, 1.0), m.clamp(min=0.02), (int_d, int_b), (lt, vb, d, b)


class Upsets:
    def __init__(self, n, gen):
        rand = lambda: torch.rand(n, generator=gen)
        self.step_f = 0.6 * (rand() - 0.5)
        self.step_z = 0.5 * (rand() - 0.5)
        self.at = 1.0 + 6.0 * rand()
        self.period = 4.0 + 10.0 * rand()
        self.wave = 0.03 * rand()

    def at_time(self, t):
        on = (t > self.at).float()
        f = F0 * (1.0 + on * self.step_f + self.wave * torch.sin(6.2832 * t / self.period))
        return f, ZF0 + on * self.step_z


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(41)
    upsets = Upsets(SCENARIOS, gen)
    u = lambda lo, hi: lo + (hi - lo) * torch.rand(SCENARIOS, generator=gen)
    tuning = (u(10.0, 40.0), u(2.0, 8.0), u(15.0, 50.0), u(2.0, 8.0))

    profile = torch.sigmoid(torch.linspace(-4.6, 4.6, NT))
    x = profile.repeat(SCENARIOS, 1)
    m = torch.full((SCENARIOS, NT), MN)
    integ = (torch.zeros(SCENARIOS), torch.zeros(SCENARIOS))
    off_spec = torch.zeros(SCENARIOS)
    energy = torch.zeros(SCENARIOS)
    with torch.no_grad():
        for k in range(STEPS):
            f, zf = upsets.at_time(torch.tensor(k * DT))
            x, m, integ, (lt, vb, d, b) = advance(x, m, integ, tuning, f, zf)
            off_spec += DT * ((x[:, -1] < 0.985) | (x[:, 0] > 0.015)).float()
            energy += DT * vb
            if (k + 1) % 100 == 0:
                print(
                    f"t={DT * (k + 1):5.1f} min  xD {x[:, -1].mean():.4f}  xB {x[:, 0].mean():.4f}  "
                    f"boil-up {vb.mean():.3f}"
                )
    score = off_spec + 0.05 * energy
    best = int(score.argmin())
    print(
        f"mean minutes off spec {off_spec.mean():.2f}, worst {off_spec.max():.2f}, "
        f"holdup range {m.min():.3f}..{m.max():.3f}"
    )
    print("tuning of the best scenario:", [round(float(p[best]), 2) for p in tuning])


if __name__ == "__main__":
    main()
