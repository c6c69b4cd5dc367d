"""Peng-Robinson property tables (Z, fugacity, departure enthalpy) for pure fluids."""

import time

import torch

R = 8.31446261815324
SQRT2 = 2.0**0.5

# Tc [K], Pc [bar], acentric factor
FLUIDS = {
    "methane": (190.56, 45.99, 0.0115),
    "ethane": (305.32, 48.72, 0.0995),
    "propane": (369.83, 42.48, 0.1523),
    "n-butane": (425.12, 37.96, 0.2002),
    "isobutane": (407.81, 36.29, 0.1835),
    "n-pentane": (469.7, 33.70, 0.2515),
    "n-hexane": (507.6, 30.25, 0.3013),
    "n-heptane": (540.2, 27.40, 0.3495),
    "n-octane": (568.7, 24.90, 0.3996),
    "benzene": (562.05, 48.95, 0.2103),
    "toluene": (591.75, 41.08, 0.2640),
    "CO2": (304.13, 73.77, 0.2239),
    "nitrogen": (126.19, 33.96, 0.0372),
    "oxygen": (154.58, 50.43, 0.0222),
    "H2S": (373.1, 90.0, 0.1005),
    "ammonia": (405.4, 113.3, 0.2560),
}


def newton_root(z, c2, c1, c0, iters=8):
    for _ in range(iters):
        f = ((z + c2) * z + c1) * z + c0
        df = (3 * z + 2 * c2) * z + c1
        d2 = 6 * z + 2 * c2
        z = z - 2 * f * df / (2 * df * df - f * d2 + 1e-30)
    return z


def ln_phi(z, A, B):
    zb = (z - B).clamp_min(1e-12)
    arg = (z + (1 + SQRT2) * B) / (z + (1 - SQRT2) * B).clamp_min(1e-12)
    return z - 1 - torch.log(zb) - A / (2 * SQRT2 * B) * torch.log(arg)


@torch.compile
def pr_table(T, P, crit):
    """T: (n, m) kelvin, P: (n, m) pascal, crit: [Tc, Pc, omega]."""
    Tc, Pc, om = crit[0], crit[1], crit[2]
    kappa = 0.37464 + 1.54226 * om - 0.26992 * om * om
    tr = torch.sqrt(T / Tc)
    alpha = (1 + kappa * (1 - tr)) ** 2
    a = 0.45724 * (R * Tc) ** 2 / Pc * alpha
    b = 0.07780 * R * Tc / Pc
    dadT = -0.45724 * (R * Tc) ** 2 / Pc * kappa * torch.sqrt(alpha / (T * Tc))
    A = a * P / (R * T) ** 2
    B = b * P / (R * T)
    c2 = B - 1
    c1 = A - 3 * B * B - 2 * B
    c0 = -(A * B - B * B - B * B * B)

    zv = torch.maximum(newton_root(1.0 + B, c2, c1, c0), 1.0001 * B)
    zl = torch.maximum(newton_root(B * 1.01, c2, c1, c0), 1.0001 * B)
    lv, ll = ln_phi(zv, A, B), ln_phi(zl, A, B)
    liquid = ll < lv
    z = torch.where(liquid, zl, zv)
    lnphi = torch.minimum(ll, lv)
    arg = (z + (1 + SQRT2) * B) / (z + (1 - SQRT2) * B).clamp_min(1e-12)
    hdep = R * T * (z - 1) + (T * dadT - a) / (2 * SQRT2 * b) * torch.log(arg)
    rho = P / (z * R * T)
    return z, torch.exp(lnphi) * P, hdep, rho, liquid


def main():
    torch.set_default_dtype(torch.float64)
    nT, nP = 480, 400
    spent = []
    for sweep in range(3):
        checksum = 0.0
        for name, (Tc, Pc, om) in FLUIDS.items():
            T = torch.linspace(0.6 * Tc, 2.0 * Tc, nT)[:, None].expand(nT, nP).contiguous()
            P = torch.logspace(4.0, 7.3, nP)[None, :].expand(nT, nP).contiguous()
            crit = torch.tensor([Tc, Pc * 1e5, om])
            t0 = time.perf_counter()
            z, fug, hdep, rho, liq = pr_table(T, P, crit)
            spent.append(time.perf_counter() - t0)
            checksum += z.mean().item()
            if sweep == 2 and name in ("methane", "n-octane", "CO2"):
                print(
                    f"{name:>9}: mean Z {z.mean():.4f}  max f {fug.max() / 1e5:.1f} bar  "
                    f"min Hdep {hdep.min() / 1e3:.1f} kJ/mol  liquid {liq.double().mean():.1%}"
                )
        print(f"sweep {sweep}: checksum {checksum:.6f}")
    print(f"{sorted(spent)[len(spent) // 2] * 1e3:.1f} ms per table of {nT}x{nP}")


if __name__ == "__main__":
    main()
