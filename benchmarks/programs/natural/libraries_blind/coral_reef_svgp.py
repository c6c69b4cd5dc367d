"""Coral bleaching risk map: sparse variational GP classifier with gpytorch.

Reef survey records (position, heat stress, depth, turbidity) -> bleached or not.  Additive kernel (space x heat), 256
inducing points, natural-gradient-free Adam training on the ELBO, then a risk map over a transect grid.
"""

import time

import gpytorch
import torch
from torch.utils.data import DataLoader, TensorDataset

N_TRAIN = 24_000
N_TEST = 4_000
INDUCING = 256
BATCH = 512
MAX_STEPS = 160


def survey(n, gen):
    lonlat = torch.rand(n, 2, generator=gen) * torch.tensor([8.0, 12.0])
    depth = -torch.log(torch.rand(n, generator=gen)).clamp_max(4.0) * 6.0 + 1.0
    dhw = (
        4.0
        + 3.0 * torch.sin(lonlat[:, 1] * 0.6)
        + 1.5 * torch.cos(lonlat[:, 0])
        + torch.randn(n, generator=gen)
    ).clamp_min(0.0)
    turb = torch.exp(0.5 * torch.randn(n, generator=gen) - 0.1 * lonlat[:, 0])
    field = 0.8 * torch.sin(1.3 * lonlat[:, 0] + 0.7 * lonlat[:, 1]) * torch.cos(0.9 * lonlat[:, 1])
    logit = 0.9 * (dhw - 4.5) - 0.12 * (depth - 6.0) - 0.8 * torch.log(turb + 0.2) + 1.2 * field
    y = torch.bernoulli(torch.sigmoid(logit), generator=gen)
    x = torch.cat(
        [
            lonlat / 4.0,
            ((dhw - 4.0) / 3.0)[:, None],
            ((depth - 6.0) / 6.0)[:, None],
            torch.log(turb)[:, None],
        ],
        dim=1,
    )
    return x, y


class BleachingGP(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        dist = gpytorch.variational.CholeskyVariationalDistribution(inducing.size(0))
        strategy = gpytorch.variational.VariationalStrategy(
            self, inducing, dist, learn_inducing_locations=True
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.LinearMean(inducing.size(1))
        space = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2, active_dims=(0, 1))
        )
        stress = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(ard_num_dims=3, active_dims=(2, 3, 4))
        )
        self.covar_module = space + stress

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def evaluate(model, likelihood, x, y):
    model.eval()
    likelihood.eval()
    probs = []
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        for xb in x.split(1000):
            probs.append(likelihood(model(xb)).mean)
    model.train()
    likelihood.train()
    p = torch.cat(probs)
    acc = ((p > 0.5).float() == y).float().mean().item()
    brier = ((p - y) ** 2).mean().item()
    return acc, brier


def main():
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(4)
    x, y = survey(N_TRAIN, gen)
    xt, yt = survey(N_TEST, gen)
    print(f"bleached: {100 * y.mean():.1f} % of {N_TRAIN} surveys")

    model = BleachingGP(x[torch.randperm(N_TRAIN)[:INDUCING]].clone())
    likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=N_TRAIN)
    optimizer = torch.optim.Adam(
        [{"params": model.parameters()}, {"params": likelihood.parameters()}], lr=0.02
    )
    model.train()
    likelihood.train()

    @torch.compile
    def neg_elbo(xb, yb):
        return -mll(model(xb), yb)

    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True, drop_last=True)
    step, start = 0, time.perf_counter()
    while step < MAX_STEPS:
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = neg_elbo(xb, yb)
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                ls = model.covar_module.kernels[1].base_kernel.lengthscale.detach().squeeze()
                print(
                    f"step {step:4d}  -elbo {loss.item():.4f}  heat lengthscale {ls[0]:.3f}  "
                    f"{(time.perf_counter() - start):5.1f} s"
                )
            step += 1
            if step >= MAX_STEPS:
                break
        acc, brier = evaluate(model, likelihood, xt, yt)
        print(f"   test accuracy {acc:.3f}  brier {brier:.4f}")

    # risk along a north-south transect at 5 m for present and +1 degree heat stress
    lat = torch.linspace(0, 12, 60)
    base = torch.stack(
        [
            torch.full_like(lat, 1.0),
            lat / 4.0,
            torch.zeros_like(lat),
            torch.full_like(lat, -1 / 6),
            torch.zeros_like(lat),
        ],
        dim=1,
    )
    warm = base.clone()
    warm[:, 2] += 1.3
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        now, then = likelihood(model(base)).mean, likelihood(model(warm)).mean
    print(
        f"transect risk now {now.mean():.3f} (max {now.max():.3f}), warm {then.mean():.3f} (max {then.max():.3f})"
    )


if __name__ == "__main__":
    main()
