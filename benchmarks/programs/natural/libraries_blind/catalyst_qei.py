"""Bayesian optimisation of a cross-coupling reaction (six process variables) with BoTorch.

Each round: fit a GP to all experiments so far, maximise qLogEI for a batch of three experiments by multi-start Adam,
"run" them in a simulated laboratory.
"""

import warnings

import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.filterwarnings("ignore")
torch.set_default_dtype(torch.double)

NAMES = ["temperature", "residence", "catalyst", "base", "ligand", "water"]
D, Q, STARTS, STEPS, ROUNDS = 6, 3, 16, 40, 7


def run_lab(x):
    """Yield in percent for variables scaled to [0, 1]."""
    temp = 40 + 90 * x[..., 0]
    tau = 1 + 29 * x[..., 1]
    cat = 0.2 + 2.3 * x[..., 2]
    base = 1 + 2 * x[..., 3]
    ligand = 0.5 + 2.5 * x[..., 4]
    water = 0.3 * x[..., 5]
    k1 = 0.05 * torch.exp((temp - 80) / 22) * cat * torch.tanh(base - 0.8) * ligand / (ligand + 1)
    k2 = 0.004 * torch.exp((temp - 80) / 13) * (1 + 5 * water) + 0.01 * (ligand - 1.4) ** 2
    conversion = 1 - torch.exp(-k1 * tau)
    selectivity = torch.exp(-k2 * tau) * (1 - 2 * (water - 0.08) ** 2)
    return 100 * conversion * selectivity


class Campaign:
    def __init__(self, n_init=12, noise=0.8):
        self.noise = noise
        self.X = torch.quasirandom.SobolEngine(D, scramble=True, seed=4).draw(n_init, dtype=torch.double)
        self.Y = self.measure(self.X)

    def measure(self, X):
        y = run_lab(X)
        return (y + self.noise * torch.randn_like(y)).unsqueeze(-1)

    def add(self, X):
        Y = self.measure(X)
        self.X = torch.cat([self.X, X])
        self.Y = torch.cat([self.Y, Y])
        return Y


def fit_model(X, Y):
    model = SingleTaskGP(X, Y, outcome_transform=Standardize(m=1))
    fit_gpytorch_mll(
        ExactMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": 40}}
    )
    return model


def maximise(acqf, seed):
    """Multi-start Adam on the unit cube; the acquisition function is compiled for speed."""
    score = torch.compile(acqf)
    engine = torch.quasirandom.SobolEngine(Q * D, scramble=True, seed=seed)
    raw = engine.draw(128, dtype=torch.double).view(128, Q, D)
    with torch.no_grad():
        best = acqf(raw).topk(STARTS).indices
    z = torch.logit(raw[best], eps=1e-3).requires_grad_()
    opt = torch.optim.Adam([z], lr=0.1)
    for _ in range(STEPS):
        opt.zero_grad()
        value = score(torch.sigmoid(z))
        (-value.sum()).backward()
        opt.step()
    with torch.no_grad():
        x = torch.sigmoid(z)
        final = acqf(x)
        i = final.argmax()
    return x[i].detach(), final[i].item()


def main():
    torch.manual_seed(1)
    lab = Campaign()
    print(f"initial design: best yield {lab.Y.max().item():.1f} %")
    for r in range(ROUNDS):
        model = fit_model(lab.X, lab.Y)
        acqf = qLogExpectedImprovement(
            model=model,
            best_f=lab.Y.max(),
            sampler=SobolQMCNormalSampler(sample_shape=torch.Size([256]), seed=r),
        )
        batch, value = maximise(acqf, seed=100 + r)
        Y = lab.add(batch)
        print(
            f"round {r}: logEI {value:7.3f}  measured {[round(v, 1) for v in Y.flatten().tolist()]}  "
            f"best {lab.Y.max().item():.1f} %"
        )
    best = lab.X[lab.Y.argmax()]
    print("best conditions:", ", ".join(f"{n} {v:.2f}" for n, v in zip(NAMES, best.tolist())))
    print(f"true yield there {run_lab(best).item():.1f} %")


if __name__ == "__main__":
    main()
