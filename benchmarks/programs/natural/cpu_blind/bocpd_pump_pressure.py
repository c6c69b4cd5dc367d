"""Bayesian online change-point detection on the pressure channels of a pumping station."""

from dataclasses import dataclass

import torch

torch.set_num_threads(2)


@dataclass
class Prior:
    mu: float = 0.0
    kappa: float = 0.5
    alpha: float = 1.5
    beta: float = 0.6
    hazard: float = 1 / 250


def student_logpdf(x, mu, kappa, alpha, beta):
    dof = 2 * alpha
    scale2 = beta * (kappa + 1) / (alpha * kappa)
    z2 = (x - mu) ** 2 / scale2
    norm = torch.lgamma((dof + 1) / 2) - torch.lgamma(dof / 2) - 0.5 * torch.log(torch.pi * dof * scale2)
    return norm - (dof + 1) / 2 * torch.log1p(z2 / dof)


class RunLengthFilter:
    """Truncated run-length posterior for many independent channels, one observation vector at a time."""

    def __init__(self, channels, horizon, prior: Prior):
        self.prior = prior
        shape = (channels, horizon)
        self.log_r = torch.full(shape, -1e4)
        self.log_r[:, 0] = 0.0
        self.mu = torch.full(shape, prior.mu)
        self.kappa = torch.full(shape, prior.kappa)
        self.alpha = torch.full(shape, prior.alpha)
        self.beta = torch.full(shape, prior.beta)

    @torch.compile(fullgraph=True)
    def observe(self, x):
        p = self.prior
        x = x.unsqueeze(1)
        pred = student_logpdf(x, self.mu, self.kappa, self.alpha, self.beta)
        joint = self.log_r + pred
        hazard = torch.tensor(p.hazard)
        change = torch.logsumexp(joint + torch.log(hazard), dim=1, keepdim=True)
        grow = joint + torch.log1p(-hazard)
        tail = torch.logaddexp(grow[:, -2:-1], grow[:, -1:])
        log_r = torch.cat([change, grow[:, :-2], tail], dim=1)
        evidence = torch.logsumexp(log_r, dim=1, keepdim=True)

        beta = self.beta + self.kappa * (x - self.mu) ** 2 / (2 * (self.kappa + 1))
        mu = (self.kappa * self.mu + x) / (self.kappa + 1)
        self.mu[:, 1:] = mu[:, :-1]
        self.kappa[:, 1:] = self.kappa[:, :-1].clone() + 1
        self.alpha[:, 1:] = self.alpha[:, :-1].clone() + 0.5
        self.beta[:, 1:] = beta[:, :-1]
        self.log_r.copy_(log_r - evidence)
        recent = torch.exp(self.log_r[:, :20]).sum(1)
        return recent, self.log_r.argmax(1), evidence.squeeze(1)


def synthetic_station(channels, length):
    """Pressure residuals with level shifts and variance bursts at random instants."""
    jumps = torch.rand(channels, length) < 1 / 300
    jumps[:, 0] = True
    regime = jumps.long().cumsum(1)
    levels = 1.5 * torch.randn(channels, int(regime.max()) + 1)
    spreads = torch.exp(0.5 * torch.randn(channels, int(regime.max()) + 1) - 0.7)
    x = levels.gather(1, regime) + spreads.gather(1, regime) * torch.randn(channels, length)
    return x, jumps


def score_alarms(alarms, jumps, window=25):
    hit = total = 0
    for c in range(jumps.shape[0]):
        for t in jumps[c].nonzero().flatten().tolist():
            if t == 0 or t + window > jumps.shape[1]:
                continue
            total += 1
            hit += bool(alarms[c, t : t + window].any())
    return hit / max(total, 1), total


def main():
    torch.manual_seed(31)
    channels, length, horizon = 192, 1500, 600
    x, jumps = synthetic_station(channels, length)
    run_filter = RunLengthFilter(channels, horizon, Prior())
    alarms = torch.zeros(channels, length, dtype=torch.bool)
    log_evidence = torch.zeros(channels)
    mode = None
    for t in range(length):
        recent, mode, evidence = run_filter.observe(x[:, t])
        alarms[:, t] = recent > 0.6
        log_evidence += evidence
    recall, total = score_alarms(alarms, jumps)
    print(f"{total} true changes, recall within window {recall:.3f}")
    print(f"alarm rate {alarms.float().mean().item():.4f}")
    print(f"mean log evidence per sample {(log_evidence / length).mean().item():.3f}")
    print(f"median run length at the end {mode.float().median().item():.0f}")


if __name__ == "__main__":
    main()
