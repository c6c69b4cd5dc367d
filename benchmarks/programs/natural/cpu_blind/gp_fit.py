"""GP regression of groundwater nitrate on 5 covariates; ARD Matern-5/2 + linear."""

import math
import time

import torch

N_TRAIN, N_TEST, D = 700, 300, 5
ITERS = 45


def make_data():
    g = torch.Generator().manual_seed(21)
    X = torch.rand(N_TRAIN + N_TEST, D, generator=g, dtype=torch.float64) * 2 - 1
    f = torch.sin(3 * X[:, 0]) + 0.7 * torch.cos(4 * X[:, 1] * X[:, 0]) + 0.5 * X[:, 2]
    y = f + 0.15 * torch.randn(len(f), generator=g, dtype=torch.float64)
    y = (y - y[:N_TRAIN].mean()) / y[:N_TRAIN].std()
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def sqdist(a, b):
    d2 = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * a @ b.T
    return d2.clamp_min(1e-12)


def kernel(Xa, Xb, p):
    ls = p["log_ls"].exp()
    r = torch.sqrt(5.0 * sqdist(Xa / ls, Xb / ls))
    matern = (1.0 + r + r * r / 3.0) * torch.exp(-r)
    linear = Xa @ Xb.T
    return (2 * p["log_sf"]).exp() * matern + (2 * p["log_lin"]).exp() * linear


def safe_cholesky(K):
    jitter = 1e-8
    eye = torch.eye(K.shape[0], dtype=K.dtype)
    for _ in range(6):
        L, info = torch.linalg.cholesky_ex(K + jitter * eye)
        if info.item() == 0:
            return L
        jitter *= 10
    raise RuntimeError("covariance is not positive definite")


@torch.compile
def neg_mll(X, y, p):
    n = X.shape[0]
    K = kernel(X, X, p) + (2 * p["log_sn"]).exp() * torch.eye(n, dtype=X.dtype)
    L = safe_cholesky(K)
    alpha = torch.cholesky_solve(y[:, None], L)[:, 0]
    nll = 0.5 * y @ alpha + L.diagonal().log().sum() + 0.5 * n * math.log(2 * math.pi)
    prior = 0.5 * (p["log_ls"] ** 2).sum() + 0.5 * (p["log_sn"] + 2.0) ** 2
    return (nll + prior) / n


@torch.no_grad()
def predict(X, y, Xs, p):
    noise = (2 * p["log_sn"]).exp()
    K = kernel(X, X, p) + noise * torch.eye(len(X), dtype=X.dtype)
    L = safe_cholesky(K)
    Ks = kernel(X, Xs, p)
    mean = Ks.T @ torch.cholesky_solve(y[:, None], L)[:, 0]
    V = torch.linalg.solve_triangular(L, Ks, upper=False)
    prior_var = (2 * p["log_sf"]).exp() + (2 * p["log_lin"]).exp() * (Xs * Xs).sum(1)
    return mean, prior_var - (V * V).sum(0) + noise


def main():
    torch.set_num_threads(2)
    X, y, Xs, ys = make_data()
    p = {
        "log_ls": torch.zeros(D, dtype=torch.float64, requires_grad=True),
        "log_sf": torch.zeros((), dtype=torch.float64, requires_grad=True),
        "log_lin": torch.full((), -1.0, dtype=torch.float64, requires_grad=True),
        "log_sn": torch.full((), -1.0, dtype=torch.float64, requires_grad=True),
    }
    opt = torch.optim.Adam(p.values(), lr=0.06)
    begin = time.perf_counter()
    for it in range(ITERS):
        t0 = time.perf_counter()
        opt.zero_grad()
        loss = neg_mll(X, y, p)
        loss.backward()
        opt.step()
        if it % 5 == 0 or it == ITERS - 1:
            ls = " ".join(f"{v:.2f}" for v in p["log_ls"].exp().tolist())
            print(
                f"{it:3d}  nmll {loss.item():8.5f}  ls [{ls}]  "
                f"sn {p['log_sn'].exp().item():.3f}  {1e3 * (time.perf_counter() - t0):.1f} ms"
            )
    print(f"hyperparameters fitted in {time.perf_counter() - begin:.1f} s")

    mean, var = predict(X, y, Xs, p)
    rmse = (mean - ys).pow(2).mean().sqrt().item()
    cover = ((mean - ys).abs() < 1.96 * var.sqrt()).double().mean().item()
    print(f"test rmse {rmse:.4f}   95% coverage {cover:.3f}")


if __name__ == "__main__":
    main()
