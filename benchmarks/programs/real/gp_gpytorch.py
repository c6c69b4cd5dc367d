"""Fitting an exact Gaussian process with gpytorch, the marginal likelihood compiled."""

import gpytorch
import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


class GP(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


x = torch.linspace(0, 1, 700, device=device).unsqueeze(-1)
y = torch.sin(12 * x.squeeze(-1)) + 0.1 * torch.randn(700, device=device)
likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
model = GP(x, y, likelihood).to(device).train()
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
opt = torch.optim.Adam(model.parameters(), lr=0.1)


@torch.compile
def objective():
    return -mll(model(x), y)


for step in range(20):
    opt.zero_grad()
    loss = objective()
    loss.backward()
    opt.step()
print(loss.item())
