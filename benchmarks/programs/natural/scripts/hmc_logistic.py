"""Hamiltonian Monte Carlo for Bayesian logistic regression."""

import torch


def log_prob(beta, X, y):
    logits = X @ beta
    return (
        y * torch.nn.functional.logsigmoid(logits) + (1 - y) * torch.nn.functional.logsigmoid(-logits)
    ).sum() - 0.5 * (beta**2).sum()


def grad_log_prob(beta, X, y):
    return torch.func.grad(log_prob)(beta, X, y)


@torch.compile
def leapfrog(beta, p, X, y, eps, steps):
    p = p + 0.5 * eps * grad_log_prob(beta, X, y)
    for k in range(steps):
        beta = beta + eps * p
        if k < steps - 1:
            p = p + eps * grad_log_prob(beta, X, y)
    p = p + 0.5 * eps * grad_log_prob(beta, X, y)
    return beta, p


torch.manual_seed(3)
X = torch.randn(20_000, 48)
true = torch.randn(48)
y = (torch.rand(20_000) < torch.sigmoid(X @ true)).float()
beta, eps, accepted, samples = torch.zeros(48), 2e-3, 0, []
for it in range(40):
    p = torch.randn(48)
    new, q = leapfrog(beta, p, X, y, eps, 8)
    h0 = -log_prob(beta, X, y) + 0.5 * (p**2).sum()
    h1 = -log_prob(new, X, y) + 0.5 * (q**2).sum()
    if torch.rand(()).item() < torch.exp(h0 - h1).item():
        beta, accepted = new, accepted + 1
    if it < 6:
        eps = eps * (1.1 if accepted > it * 0.7 else 0.7)
    samples.append(beta)
print(accepted, torch.stack(samples[10:]).mean(0)[:4])
