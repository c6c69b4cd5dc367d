"""Stochastic NPZD mixed-layer plankton ensemble with torchsde.

Nutrient, phytoplankton, two zooplankton size classes and detritus with seasonal light and mixing and multiplicative
noise, integrated for an ensemble of parameter draws; likelihood weights against synthetic satellite chlorophyll.
"""

import math
import time

import torch
import torch.nn as nn
import torchsde

MEMBERS = 60_000
DAYS = 40.0
DT = 0.0625


class NPZDSde(nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self, members, latitude=48.0):
        super().__init__()
        g = torch.Generator().manual_seed(7)

        def lognormal(median, cv):
            return median * torch.exp(cv * torch.randn(members, generator=g))

        self.register_buffer("mu_max", lognormal(1.1, 0.20))  # 1/d
        self.register_buffer("k_n", lognormal(0.5, 0.30))  # mmol N / m3
        self.register_buffer("alpha", lognormal(0.04, 0.25))  # initial slope of the P-I curve
        self.register_buffer("g_small", lognormal(1.6, 0.20))
        self.register_buffer("g_large", lognormal(0.7, 0.25))
        self.register_buffer("m_p", lognormal(0.05, 0.20))
        self.register_buffer("remin", lognormal(0.06, 0.20))
        self.register_buffer("kw", lognormal(0.05, 0.10))
        self.register_buffer("sigma", lognormal(0.08, 0.30))
        self.lat = math.radians(latitude)

    def light_and_mixing(self, t):
        day = 75.0 + t
        decl = -0.409 * torch.cos(2 * math.pi * (day + 10.0) / 365.0)
        arg = (-math.tan(self.lat) * torch.tan(decl)).clamp(-0.99, 0.99)
        daylen = torch.arccos(arg) / math.pi
        par = 90.0 + 70.0 * torch.sin(2 * math.pi * (day - 80.0) / 365.0)
        mld = 25.0 + 95.0 * torch.exp(-(((day - 60.0) / 35.0) ** 2))
        entrain = 0.5 / mld + 0.02 * torch.exp(-(((day - 70.0) / 25.0) ** 2))
        return par * daylen * 2.0, mld, entrain

    def f(self, t, y):
        n, p, zs, zl, d = y.clamp_min(1e-4).unbind(-1)
        par, mld, entrain = self.light_and_mixing(t)
        # depth averaged light with self shading, Smith curve
        k = self.kw + 0.03 * p
        att = (1.0 - torch.exp(-k * mld)) / (k * mld)
        light = self.alpha * par * att
        growth = self.mu_max * light / torch.sqrt(self.mu_max**2 + light**2)
        uptake = growth * n / (n + self.k_n) * p
        graze_s = self.g_small * p * p / (p * p + 0.64) * zs
        pref = p + 1.8 * zs + 1e-6
        graze_l = self.g_large * pref * pref / (pref * pref + 1.2) * zl
        eat_p, eat_z = graze_l * p / pref, graze_l * 1.8 * zs / pref
        mort_p = self.m_p * p + 0.02 * p * p
        mort_s = 0.04 * zs + 0.10 * zs * zs
        mort_l = 0.02 * zl + 0.18 * zl * zl
        remin = self.remin * d
        dn = -uptake + 0.3 * graze_s + 0.25 * graze_l + remin + entrain * (9.0 - n) + 0.4 * (mort_s + mort_l)
        dp = uptake - graze_s - eat_p - mort_p - entrain * p
        dzs = 0.45 * graze_s - eat_z - mort_s - entrain * zs
        dzl = 0.40 * graze_l - mort_l - 0.3 * entrain * zl
        dd = (
            0.25 * graze_s
            + 0.35 * graze_l
            + mort_p
            + 0.6 * (mort_s + mort_l)
            - remin
            - (entrain + 3.0 / mld) * d
        )
        return torch.stack([dn, dp, dzs, dzl, dd], dim=-1)

    def g(self, t, y):
        n, p, zs, zl, d = y.unbind(-1)
        # log-type noise that fades out near zero and saturates in blooms
        sp = self.sigma * p / (1.0 + (p / 6.0) ** 2).sqrt()
        sz = 0.7 * self.sigma * zs / (1.0 + (zs / 3.0) ** 2).sqrt()
        sl = 0.5 * self.sigma * zl / (1.0 + (zl / 3.0) ** 2).sqrt()
        return torch.stack([0.02 * torch.tanh(n), sp, sz, sl, 0.05 * torch.tanh(d)], dim=-1)


def chlorophyll(y, par=80.0):
    """Carbon : chlorophyll with simple photo-acclimation."""
    p = y[..., 1].clamp_min(0.0)
    theta = 0.3 + 1.2 / (1.0 + 0.02 * par)
    return p * theta


@torch.no_grad()
def main():
    torch.manual_seed(2)
    sde = NPZDSde(MEMBERS)
    sde.f = torch.compile(sde.f)
    sde.g = torch.compile(sde.g)

    y = torch.tensor([7.0, 0.35, 0.15, 0.10, 0.20]).repeat(MEMBERS, 1)
    y = y * torch.exp(0.1 * torch.randn_like(y))
    truth = torch.tensor([0.5, 0.9, 1.6, 2.2, 2.0, 1.5, 1.2, 1.0])
    log_w = torch.zeros(MEMBERS)

    start = time.perf_counter()
    window = DAYS / len(truth)
    for k, obs in enumerate(truth):
        ts = torch.tensor([k * window, (k + 1) * window])
        t0 = time.perf_counter()
        y = torchsde.sdeint(sde, y, ts, method="euler", dt=DT)[-1].clamp_min(1e-4)
        chl = chlorophyll(y)
        resid = (torch.log(chl + 1e-3) - torch.log(obs)) / 0.35
        log_w += -0.5 * resid**2
        w = torch.softmax(log_w, 0)
        print(
            f"day {ts[1].item():5.1f}  chl obs {obs.item():4.2f}  prior {chl.mean():5.2f}  "
            f"posterior {(w * chl).sum():5.2f}  ess {1.0 / (w**2).sum():8.1f}  "
            f"N {y[:, 0].mean():5.2f}  Z {y[:, 2:4].sum(-1).mean():5.2f}  "
            f"[{(time.perf_counter() - t0):.2f} s]"
        )
    w = torch.softmax(log_w, 0)
    for name in ("mu_max", "k_n", "g_small", "g_large"):
        v = getattr(sde, name)
        print(f"{name:8s} prior {v.mean():.3f} +- {v.std():.3f}   posterior {(w * v).sum():.3f}")
    print(f"done in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
