"""Permutation test for a two-arm survival trial with delayed effect: the Fleming-Harrington weighted log-rank family.

Asymptotic p-values of the maximum over several (rho, gamma) weights are awkward, so the null distribution of the
max-combo statistic is taken from random relabellings within strata (centres).
"""

import torch

torch.manual_seed(29)

N = 3000
CENTRES = 6
PERMS_PER_CALL = 120
CALLS = 60
WEIGHTS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))


def simulate_trial():
    arm = (torch.rand(N) < 0.5).float()
    centre = torch.randint(0, CENTRES, (N,))
    frailty = torch.exp(0.3 * torch.randn(CENTRES))[centre]
    # hazard ratio 1 before month 6 and 0.78 after it, by inversion of the cumulative hazard
    h = 0.05 * frailty
    u = torch.empty(N).exponential_()
    early = u / h
    late = 6.0 + (u - 6.0 * h) / (h * torch.where(arm > 0, 0.78, 1.0))
    t = torch.where(early < 6.0, early, late)
    censor = 12.0 + 24.0 * torch.rand(N)
    return torch.minimum(t, censor), (t <= censor).float(), arm, centre


class LogRank(torch.nn.Module):
    """Statistics for a batch of labellings of the same (sorted) survival times."""

    def __init__(self, event):
        super().__init__()
        n = event.numel()
        at_risk = torch.arange(n, 0, -1).float()
        km = torch.cumprod(1.0 - event / at_risk, 0)
        km_left = torch.cat([torch.ones(1), km[:-1]])
        w = torch.stack([km_left**rho * (1 - km_left) ** gam for rho, gam in WEIGHTS])
        self.register_buffer("event", event)
        self.register_buffer("at_risk", at_risk)
        self.register_buffer("w", w)

    def forward(self, label):
        # label (B, n): 1 for the treated arm, in order of time
        treated = label.flip(1).cumsum(1).flip(1)
        frac = treated / self.at_risk
        obs_minus_exp = self.event * (label - frac)
        var = self.event * frac * (1.0 - frac)
        num = (self.w[None] * obs_minus_exp[:, None]).sum(-1)
        den = (self.w.square()[None] * var[:, None]).sum(-1)
        return num / den.clamp(min=1e-9).sqrt()


def permute_within(arm, centre, batch):
    """Random relabelling inside each centre: sort by (centre, random key) and lay the labels out again."""
    key = torch.rand(batch, arm.numel()) + centre
    order = key.argsort(dim=1)
    slots = centre.argsort(stable=True)
    out = torch.empty(batch, arm.numel())
    out[:, slots] = arm[order]
    return out


def null_batch(model, arm, centre, batch):
    z = model(permute_within(arm, centre, batch))
    return z, z.abs().amax(1)


def main():
    time, event, arm, centre = simulate_trial()
    order = time.argsort()
    event, arm, centre = event[order], arm[order], centre[order]
    model = LogRank(event)
    sampler = torch.compile(null_batch)

    with torch.no_grad():
        z_obs = model(arm[None])[0]
        zs, maxima = [], []
        for _ in range(CALLS):
            z, m = sampler(model, arm, centre.float(), PERMS_PER_CALL)
            zs.append(z)
            maxima.append(m)
    zs = torch.cat(zs)
    maxima = torch.cat(maxima)
    print(f"{N} patients, {int(event.sum())} events, {len(maxima)} relabellings")
    for (rho, gam), zo, col in zip(WEIGHTS, z_obs, zs.T):
        p = (1 + (col.abs() >= zo.abs()).sum().item()) / (1 + len(col))
        print(f"  FH({rho:.0f},{gam:.0f})  z {zo.item():+.3f}  null sd {col.std().item():.3f}  p {p:.4f}")
    obs = z_obs.abs().max()
    print(f"max-combo {obs.item():.3f}  p {(1 + (maxima >= obs).sum().item()) / (1 + len(maxima)):.4f}")


if __name__ == "__main__":
    main()
