"""Hierarchical Cepheid period-luminosity relation fitted by variational inference.

Anchor and supernova-host galaxies each have a distance modulus; their Cepheids follow a common PL relation with a
metallicity term, intrinsic scatter, and a contaminated (blended / misclassified) fraction handled as a two-component
mixture. A low-rank plus diagonal Gaussian guide over all the unconstrained parameters is optimised with many Monte
Carlo samples of the ELBO. The posterior of H0 follows from the host moduli and the SN Ia peak magnitudes.
"""

import math

import torch
from torch import nn
from torch.distributions import Beta, HalfNormal, LowRankMultivariateNormal, Normal

torch.manual_seed(1912)

N_HOSTS = 37
N_ANCHORS = 4
N_GAL = N_HOSTS + N_ANCHORS
N_CEPH = 3200
TRUE = dict(zp=-5.9, slope=-3.28, metal=-0.2, scatter=0.07, frac=0.06)


def make_catalogue():
    mu = torch.cat([torch.tensor([18.48, 29.40, 18.96, 24.41]), 29.5 + 4.0 * torch.rand(N_HOSTS)])
    gal = torch.randint(0, N_GAL, (N_CEPH,)).sort().values
    logp = 0.5 + 1.4 * torch.rand(N_CEPH)
    oh = 0.15 * torch.randn(N_CEPH)
    err = 0.05 + 0.25 * torch.rand(N_CEPH) * (mu[gal] / 33.0)
    m = mu[gal] + TRUE["zp"] + TRUE["slope"] * (logp - 1) + TRUE["metal"] * oh
    m = m + TRUE["scatter"] * torch.randn(N_CEPH) + err * torch.randn(N_CEPH)
    bad = torch.rand(N_CEPH) < TRUE["frac"]
    m = torch.where(bad, m - 0.5 + 0.9 * torch.randn(N_CEPH), m)
    h0 = 73.0
    m_b = -19.25
    # a_B from the Hubble-flow sample; host SN peaks
    a_b = (m_b - 5 * math.log10(h0) + 25) / -5
    sn = mu[N_ANCHORS:] + m_b + 0.12 * torch.randn(N_HOSTS)
    anchor_mu = mu[:N_ANCHORS] + torch.tensor([0.026, 0.032, 0.05, 0.06]) * torch.randn(N_ANCHORS)
    return dict(gal=gal, logp=logp, oh=oh, err=err, m=m, sn=sn, anchor=anchor_mu, a_b=a_b, mu=mu)


class Ladder(nn.Module):
    """Log joint of the unconstrained parameter vector [S, D]."""

    D = N_GAL + 9

    def __init__(self, cat):
        super().__init__()
        for k in ("gal", "logp", "oh", "err", "m", "sn", "anchor"):
            self.register_buffer(k, cat[k])
        self.register_buffer("anchor_err", torch.tensor([0.026, 0.032, 0.05, 0.06]))
        self.register_buffer(
            "mu0", torch.cat([torch.tensor([18.5, 29.4, 19.0, 24.4]), torch.full((N_HOSTS,), 31.5)])
        )

    def unpack(self, th):
        mu = self.mu0 + th[:, :N_GAL]
        zp, slope, metal, ls, lf, off, lw, mb, lsn = th[:, N_GAL:].unbind(1)
        return (
            mu,
            -5.5 + zp,
            -3.0 + slope,
            metal,
            torch.exp(ls - 2.5),
            torch.sigmoid(lf - 2),
            off,
            torch.exp(lw),
            -19.0 + mb,
            torch.exp(lsn - 2),
        )

    def forward(self, th):
        mu, zp, slope, metal, scat, frac, off, wide, mb, sn_sig = self.unpack(th)
        pred = mu[:, self.gal] + zp[:, None] + slope[:, None] * (self.logp - 1) + metal[:, None] * self.oh
        sig_in = torch.sqrt(self.err**2 + scat[:, None] ** 2)
        sig_out = torch.sqrt(self.err**2 + wide[:, None] ** 2)
        good = Normal(pred, sig_in, validate_args=False).log_prob(self.m) + torch.log1p(-frac)[:, None]
        bad = (
            Normal(pred + off[:, None], sig_out, validate_args=False).log_prob(self.m)
            + torch.log(frac)[:, None]
        )
        ll = torch.logsumexp(torch.stack([good, bad]), 0).sum(1)
        ll = ll + Normal(mu[:, :N_ANCHORS], self.anchor_err, validate_args=False).log_prob(self.anchor).sum(1)
        ll = ll + Normal(mu[:, N_ANCHORS:] + mb[:, None], sn_sig[:, None], validate_args=False).log_prob(
            self.sn
        ).sum(1)
        prior = Normal(0.0, 3.0, validate_args=False).log_prob(th[:, :N_GAL]).sum(1)
        prior = prior + Normal(0.0, 1.0, validate_args=False).log_prob(th[:, N_GAL:]).sum(1)
        prior = prior + HalfNormal(0.2, validate_args=False).log_prob(scat) + torch.log(scat)
        prior = (
            prior + Beta(1.0, 9.0, validate_args=False).log_prob(frac) + torch.log(frac) + torch.log1p(-frac)
        )
        prior = prior + HalfNormal(1.0, validate_args=False).log_prob(wide) + torch.log(wide)
        return ll + prior


class Guide(nn.Module):
    def __init__(self, d, rank=8):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(d))
        self.factor = nn.Parameter(0.01 * torch.randn(d, rank))
        self.log_diag = nn.Parameter(torch.full((d,), -3.0))

    def dist(self):
        return LowRankMultivariateNormal(
            self.loc, self.factor, torch.exp(2 * self.log_diag), validate_args=False
        )

    def forward(self, n):
        q = self.dist()
        th = q.rsample((n,))
        return th, q.log_prob(th)


class Elbo(nn.Module):
    def __init__(self, ladder, guide, samples):
        super().__init__()
        self.ladder, self.guide, self.samples = ladder, guide, samples

    def forward(self):
        th, logq = self.guide(self.samples)
        return -(self.ladder(th) - logq).mean()


def main():
    cat = make_catalogue()
    ladder = Ladder(cat)
    guide = Guide(Ladder.D)
    elbo = torch.compile(Elbo(ladder, guide, samples=32))
    opt = torch.optim.Adam(guide.parameters(), lr=0.02)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 1200)
    history = []
    for step in range(1200):
        opt.zero_grad()
        loss = elbo()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(guide.parameters(), 1e4)
        opt.step()
        sched.step()
        history.append(loss.item())
        if step % 300 == 0:
            print(f"step {step:5d}  -ELBO {sum(history[-50:]) / len(history[-50:]):.1f}")
    with torch.no_grad():
        th = guide.dist().sample((4000,))
        mu, zp, slope, metal, scat, frac, _, _, mb, _ = ladder.unpack(th)
        h0 = 10 ** ((mb + 5 * cat["a_b"] + 25) / 5)
    for name, x in [("zp", zp), ("slope", slope), ("metal", metal), ("scatter", scat), ("frac", frac)]:
        print(f"{name:8s} {x.mean():7.3f} +- {x.std():.3f}  (true {TRUE[name]})")
    print(f"H0       {h0.mean():7.2f} +- {h0.std():.2f}")
    print(
        f"rms host modulus error {(mu.mean(0) - cat['mu']).pow(2).mean().sqrt():.3f} mag, final {history[-1]:.1f}"
    )


if __name__ == "__main__":
    main()
