"""Movement-state HMM for GPS-collared elk (moveHMM-style), fitted by gradient ascent with Pyro's DiscreteHMM.

Three behavioural states (resting, foraging, travelling); gamma step lengths and von Mises turning
angles; transition logits depend on time of day and distance to the nearest road.
"""

import math
import time

import pyro.distributions as dist
import torch
import torch.nn as nn
import torch.nn.functional as F
from pyro.distributions import constraints
from pyro.distributions.torch_distribution import TorchDistribution

torch.manual_seed(2)
torch.distributions.Distribution.set_default_validate_args(False)
K, ANIMALS, FIXES = 3, 40, 1200


class StepTurn(TorchDistribution):
    """Joint law of (step length, turning angle), independent given the state."""

    support = constraints.independent(constraints.real, 1)

    def __init__(self, shape, rate, loc, kappa):
        self.step = torch.distributions.Gamma(shape, rate)
        self.turn = torch.distributions.VonMises(loc, kappa)
        super().__init__(shape.shape, torch.Size([2]))

    def log_prob(self, value):
        return self.step.log_prob(value[..., 0]) + self.turn.log_prob(value[..., 1])


class ElkHMM(nn.Module):
    def __init__(self, n_cov):
        super().__init__()
        self.log_mean = nn.Parameter(torch.tensor([-3.0, -1.5, 0.0]))  # km per fix
        self.log_shape = nn.Parameter(torch.zeros(K))
        self.turn_loc = nn.Parameter(torch.tensor([3.0, 0.5, 0.0]))
        self.log_kappa = nn.Parameter(torch.tensor([-0.5, -0.5, 0.5]))
        self.init_logits = nn.Parameter(torch.zeros(K))
        self.trans = nn.Parameter(2 * torch.eye(K))
        self.beta = nn.Parameter(torch.zeros(n_cov, K, K))

    def hmm(self, cov):
        shape = F.softplus(self.log_shape) + 0.2
        obs = StepTurn(shape, shape / self.log_mean.exp(), self.turn_loc, self.log_kappa.exp() + 1e-2)
        logits = self.trans + torch.einsum("atc,cij->atij", cov, self.beta)
        return dist.DiscreteHMM(self.init_logits, logits, obs)

    def forward(self, track, cov):
        return self.hmm(cov).log_prob(track).sum()


def simulate(true, n, t):
    hour = torch.arange(t) % 24
    road = torch.randn(n, t).cumsum(1)
    road = (road - road.mean(1, keepdim=True)) / road.std(1, keepdim=True)
    cov = torch.stack(
        [
            torch.cos(2 * math.pi * hour / 24).expand(n, t),
            torch.sin(2 * math.pi * hour / 24).expand(n, t),
            road,
        ],
        -1,
    )
    beta = torch.zeros(3, K, K)
    beta[0, :, 0], beta[1, :, 1], beta[2, :, 2] = 0.8, 0.6, -0.5
    state = torch.zeros(n, dtype=torch.long)
    steps, turns = [], []
    base = 2.2 * torch.eye(K)
    for i in range(t):
        logits = (base + torch.einsum("nc,cij->nij", cov[:, i], beta))[torch.arange(n), state]
        state = torch.distributions.Categorical(logits=logits).sample()
        shape = true["shape"][state]
        steps.append(torch.distributions.Gamma(shape, shape / true["mean"][state]).sample().clamp(min=1e-4))
        turns.append(torch.distributions.VonMises(true["loc"][state], true["kappa"][state]).sample())
    return torch.stack([torch.stack(steps, 1), torch.stack(turns, 1)], -1), cov


def main():
    true = {
        "mean": torch.tensor([0.03, 0.25, 1.4]),
        "shape": torch.tensor([0.9, 1.3, 2.2]),
        "loc": torch.tensor([3.0, 0.2, 0.0]),
        "kappa": torch.tensor([0.4, 0.5, 2.5]),
    }
    track, cov = simulate(true, ANIMALS, FIXES)
    model = ElkHMM(cov.shape[-1])
    loglik = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    t0 = time.perf_counter()
    for it in range(80):
        opt.zero_grad()
        nll = -loglik(track, cov) / track[..., 0].numel() + 1e-3 * model.beta.pow(2).sum()
        nll.backward()
        opt.step()
        if it % 10 == 9:
            print(
                f"iter {it + 1:3d}  nll/fix {nll.item():.4f}  mean step "
                f"{[round(v, 3) for v in model.log_mean.exp().tolist()]}  {(time.perf_counter() - t0) * 100:.1f} ms/it"
            )
            t0 = time.perf_counter()
    with torch.no_grad():
        aic = -2 * loglik(track, cov) + 2 * sum(p.numel() for p in model.parameters())
    print(f"AIC {aic.item():.1f}; truth {true['mean'].tolist()}")


if __name__ == "__main__":
    main()
