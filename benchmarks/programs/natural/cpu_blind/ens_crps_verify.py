"""Verification of three ensemble weather systems: fair CRPS, energy score, Brier scores, spread and rank histograms."""

import torch

torch.manual_seed(14)

NLAT, NLON = 60, 120
SYSTEMS = {
    "coarse": (20, 1.3, 0.4),
    "regional": (31, 1.0, 0.1),
    "global": (50, 0.8, 0.0),
}  # members, spread, bias
LEADS = 5
DATES = 5
GUST_THRESHOLDS = torch.tensor([8.0, 12.0, 16.0, 20.0])


def smooth_field(n):
    """Random fields with spatial correlation, by low-resolution noise blown up to the grid."""
    low = torch.randn(n, 3, NLAT // 10, NLON // 10)
    return torch.nn.functional.interpolate(low, size=(NLAT, NLON), mode="bilinear", align_corners=False)


def truth():
    scale = torch.tensor([6.0, 7.0, 7.0])[:, None, None]
    return smooth_field(1)[0] * scale + torch.tensor([283.0, 3.0, 0.0])[:, None, None]


def forecast(obs, members, spread, bias, lead):
    sigma = spread * (0.8 + 0.5 * lead)
    common = smooth_field(1) * sigma * 0.6
    return obs + common + smooth_field(members) * sigma + 0.3 * torch.randn(members, 3, NLAT, NLON) + bias


def latitude_weights():
    lat = torch.linspace(-89, 89, NLAT).deg2rad()
    w = lat.cos()[:, None].expand(NLAT, NLON)
    return w / w.mean()


def fair_crps(ens, obs):
    m = ens.shape[0]
    skill = (ens - obs).abs().mean(0)
    pairs = (ens[:, None] - ens[None, :]).abs().sum((0, 1))
    return skill - pairs / (2 * m * (m - 1))


def energy_score(u, v, uo, vo):
    m = u.shape[0]
    skill = torch.sqrt((u - uo) ** 2 + (v - vo) ** 2).mean(0)
    du = u[:, None] - u[None, :]
    dv = v[:, None] - v[None, :]
    pairs = torch.sqrt(du**2 + dv**2).sum((0, 1))
    return skill - pairs / (2 * m * (m - 1))


def brier(speed, speed_obs, thresholds):
    p = (speed[None] > thresholds[:, None, None, None]).float().mean(1)
    o = (speed_obs[None] > thresholds[:, None, None]).float()
    return (p - o) ** 2


@torch.compile
def verify(ens, obs, weights, thresholds):
    t, u, v = ens.unbind(1)
    to, uo, vo = obs.unbind(0)
    crps = (fair_crps(t, to) * weights).mean()
    es = (energy_score(u, v, uo, vo) * weights).mean()
    speed, speed_obs = torch.hypot(u, v), torch.hypot(uo, vo)
    bs = (brier(speed, speed_obs, thresholds) * weights).mean((1, 2))
    mse = ((t.mean(0) - to) ** 2 * weights).mean()
    var = (t.var(0) * weights).mean()
    rank = (t < to).sum(0)
    return crps, es, bs, mse, var, rank


def main():
    weights = latitude_weights()
    for name, (members, spread, bias) in SYSTEMS.items():
        sums = torch.zeros(LEADS, 4)
        brier_sum = torch.zeros(len(GUST_THRESHOLDS))
        hist = torch.zeros(members + 1)
        for _ in range(DATES):
            obs = truth()
            for lead in range(LEADS):
                ens = forecast(obs, members, spread, bias, lead)
                crps, es, bs, mse, var, rank = verify(ens, obs, weights, GUST_THRESHOLDS)
                sums[lead] += torch.stack([crps, es, mse, var])
                brier_sum += bs
                hist += torch.bincount(rank.flatten(), minlength=members + 1)
        sums /= DATES
        hist /= hist.sum()
        print(f"{name} ({members} members)")
        for lead in range(LEADS):
            c, e, m, s = sums[lead].tolist()
            print(f"  day {lead + 1}: CRPS {c:.3f}  energy {e:.3f}  spread/skill {(s / m) ** 0.5:.3f}")
        print(
            "  Brier",
            [round(b, 4) for b in (brier_sum / (DATES * LEADS)).tolist()],
            f" outer ranks {(hist[0] + hist[-1]).item():.3f} (flat: {2 / (members + 1):.3f})",
        )


if __name__ == "__main__":
    main()
