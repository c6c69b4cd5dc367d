"""Panel mixed logit of commute mode choice by simulated maximum likelihood.

Each person answers T stated-choice tasks over J modes.  Taste coefficients are
normal with full covariance, except cost, which is (minus) lognormal.  Sobol draws.
"""

import math
import os
import time

import torch

N = int(os.environ.get("N", "1200"))
T, J, K = 4, 5, 6
R = int(os.environ.get("R", "64"))
NAMES = ["asc_rail", "asc_bike", "time", "transfers", "comfort", "log_cost"]
torch.manual_seed(2024)

tril = torch.tril_indices(K, K)
L_TRUE = torch.diag(torch.tensor([0.8, 0.9, 0.5, 0.4, 0.3, 0.4]))
L_TRUE[2, 0], L_TRUE[4, 1] = 0.2, -0.15
B_TRUE = torch.tensor([0.4, -0.6, -1.2, -0.5, 0.6, -0.2])


def tastes(mean, chol, z):
    raw = mean + z @ chol.T
    return torch.cat([raw[..., :-1], -raw[..., -1:].exp()], -1)


def simulate():
    x = torch.randn(N, T, J, K)
    x[..., 0] = torch.zeros(J).index_fill_(0, torch.tensor([1, 2]), 1.0)
    x[..., 1] = torch.zeros(J).index_fill_(0, torch.tensor([3]), 1.0)
    x[..., 3] = torch.randint(0, 3, (N, T, J)).float()
    x[..., 5] = 0.5 + 2.0 * torch.rand(N, T, J)
    beta = tastes(B_TRUE, L_TRUE, torch.randn(N, K))
    u = (x * beta[:, None, None]).sum(-1)
    u = u - torch.log(-torch.log(torch.rand_like(u).clamp(1e-7, 1 - 1e-7)))
    avail = torch.rand(N, T, J) > 0.1
    avail[..., 0] = True
    return x, avail, u.masked_fill(~avail, -math.inf).argmax(-1)


def sobol_normal():
    eng = torch.quasirandom.SobolEngine(K, scramble=True, seed=5)
    u = eng.draw(N * R).view(N, R, K).clamp(1e-6, 1 - 1e-6)
    return math.sqrt(2.0) * torch.erfinv(2 * u - 1)


def sim_nll(theta, x, avail, choice, z):
    chol = torch.zeros(K, K).index_put((tril[0], tril[1]), theta[K:])
    beta = tastes(theta[:K], chol, z)  # N R K
    util = torch.bmm(beta, x.reshape(N, T * J, K).transpose(1, 2))  # N R TJ
    util = util.view(N, -1, T, J).masked_fill(~avail[:, None], -1e9)
    logp = torch.log_softmax(util, -1)
    idx = choice[:, None, :, None].expand(-1, util.shape[1], -1, 1)
    seq = logp.gather(-1, idx).squeeze(-1).sum(-1)  # N R
    person = torch.logsumexp(seq, 1) - math.log(seq.shape[1])
    return -person.mean()


nll = torch.compile(sim_nll)


def gradient(theta, data):
    th = theta.detach().clone().requires_grad_()
    loss = nll(th, *data)
    (g,) = torch.autograd.grad(loss, th)
    return loss.item(), g


def fit(data, max_iter):
    theta = torch.zeros(K + tril.shape[1])
    theta[K:] = 0.3 * (tril[0] == tril[1]).float()
    theta.requires_grad_()
    opt = torch.optim.LBFGS([theta], lr=1.0, max_iter=1, history_size=12, line_search_fn="strong_wolfe")
    evals = 0

    def closure():
        nonlocal evals
        evals += 1
        opt.zero_grad()
        loss = nll(theta, *data)
        loss.backward()
        return loss

    last = math.inf
    for it in range(max_iter):
        val = opt.step(closure).item()
        if it % 5 == 0:
            print(f"  iter {it:3d}  evals {evals:3d}  LL {-val * N:12.3f}  |g| {theta.grad.norm():.2e}")
        if abs(last - val) < 1e-7:
            break
        last = val
    return theta.detach(), evals


def hessian_fd(theta, data, h=2e-3):
    p = theta.numel()
    hess = torch.zeros(p, p)
    for i in range(p):
        e = torch.zeros(p)
        e[i] = h
        hess[i] = (gradient(theta + e, data)[1] - gradient(theta - e, data)[1]) / (2 * h)
    return 0.5 * (hess + hess.T) * N


def main():
    x, avail, choice = simulate()
    data = (x, avail, choice, sobol_normal())
    shares = torch.bincount(choice.flatten(), minlength=J).float() / choice.numel()
    print(f"{N} persons x {T} tasks, {R} draws, shares {[round(s, 3) for s in shares.tolist()]}")
    t0 = time.perf_counter()
    theta, evals = fit(data, int(os.environ.get("ITERS", "25")))
    t1 = time.perf_counter()
    hess = hessian_fd(theta, data)
    t2 = time.perf_counter()
    cov = torch.linalg.pinv(hess, hermitian=True)
    se = cov.diagonal().clamp(min=0).sqrt()
    print(f"fit {t1 - t0:.2f} s ({evals} evaluations), Hessian {t2 - t1:.2f} s")
    chol = torch.zeros(K, K)
    chol[tril[0], tril[1]] = theta[K:]
    sd = (chol @ chol.T).diagonal().sqrt()
    sd_true = (L_TRUE @ L_TRUE.T).diagonal().sqrt()
    print(f"{'coef':<10}{'mean':>9}{'s.e.':>8}{'true':>8}{'sd':>9}{'true':>8}")
    for i, n in enumerate(NAMES):
        print(f"{n:<10}{theta[i]:9.3f}{se[i]:8.3f}{B_TRUE[i]:8.2f}{sd[i]:9.3f}{sd_true[i]:8.2f}")
    vot = theta[2] / -(theta[5] + 0.5 * sd[5] ** 2).exp()
    print(f"value of time (ratio of means): {vot:.3f}")


if __name__ == "__main__":
    main()
