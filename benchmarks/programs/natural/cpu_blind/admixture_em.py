"""Ancestry proportions from SNP genotypes: the ADMIXTURE likelihood fitted by EM with SQUAREM acceleration.

Genotype g_ij in {0,1,2} ~ Binomial(2, sum_k q_ik p_kj).  Some calls are missing (-1).
Several random restarts are run and the one with the best likelihood is kept.
"""

import math

import torch

torch.manual_seed(11)

N_IND, N_SNP, K = 480, 4000, 5
RESTARTS = 3
MAX_ITER = 24
EPS = 1e-5


def simulate():
    ancestral = torch.rand(N_SNP) * 0.9 + 0.05
    fst = 0.12
    a = ancestral * (1 - fst) / fst
    b = (1 - ancestral) * (1 - fst) / fst
    p = torch.distributions.Beta(a, b).sample((K,)).clamp(0.01, 0.99)
    q = torch.distributions.Dirichlet(torch.full((K,), 0.35)).sample((N_IND,))
    f = q @ p
    g = torch.binomial(torch.full_like(f, 2.0), f)
    missing = torch.rand_like(g) < 0.03
    return torch.where(missing, torch.full_like(g, -1.0), g), q, p


def project(q, p):
    q = q.clamp(min=EPS)
    q = q / q.sum(1, keepdim=True)
    return q, p.clamp(EPS, 1 - EPS)


@torch.compile
def em_step(g, q, p):
    """One EM update of (q, p)."""
    seen = g >= 0
    f = q @ p
    alt = torch.where(seen, g / f, 0.0)
    ref = torch.where(seen, (2.0 - g) / (1.0 - f), 0.0)

    q_new = q * (alt @ p.T) + q * (ref @ (1.0 - p).T)
    q_new = q_new / (2.0 * seen.sum(1, keepdim=True))

    num_alt = p * (q.T @ alt)
    num_ref = (1.0 - p) * (q.T @ ref)
    p_new = num_alt / (num_alt + num_ref)
    return project(q_new, p_new)


@torch.compile
def loglik(g, q, p):
    f = q @ p
    ll = g * torch.log(f) + (2.0 - g) * torch.log1p(-f)
    return torch.where(g >= 0, ll, 0.0).sum(dtype=torch.float64)


def squarem(g, q, p):
    """Fit from one starting point; returns q, p, log-likelihood, number of EM steps."""
    ll = loglik(g, q, p).item()
    steps = 0
    for it in range(MAX_ITER):
        q1, p1 = em_step(g, q, p)
        q2, p2 = em_step(g, q1, p1)
        steps += 2
        rq, rp = q1 - q, p1 - p
        vq, vp = (q2 - q1) - rq, (p2 - p1) - rp
        r2 = (rq.square().sum() + rp.square().sum()).item()
        v2 = (vq.square().sum() + vp.square().sum()).item()
        alpha = -max(1.0, math.sqrt(r2 / max(v2, 1e-20)))

        qa, pa = project(q - 2 * alpha * rq + alpha**2 * vq, p - 2 * alpha * rp + alpha**2 * vp)
        qa, pa = em_step(g, qa, pa)
        steps += 1
        ll_new = loglik(g, qa, pa).item()
        if ll_new < ll:  # extrapolated too far
            qa, pa = q2, p2
            ll_new = loglik(g, qa, pa).item()
        q, p = qa, pa
        if abs(ll_new - ll) < 1e-7 * abs(ll):
            ll = ll_new
            break
        ll = ll_new
    return q, p, ll, steps


def match(q_fit, q_true):
    """Greedy matching of the fitted clusters to the simulated ones by correlation."""
    a = (q_fit - q_fit.mean(0)) / q_fit.std(0)
    b = (q_true - q_true.mean(0)) / q_true.std(0)
    corr = a.T @ b / len(a)
    total = 0.0
    for _ in range(K):
        i, j = divmod(int(corr.argmax()), K)
        total += corr[i, j].item()
        corr[i, :] = -9
        corr[:, j] = -9
    return total / K


def main():
    g, q_true, p_true = simulate()
    print(f"{N_IND} individuals, {N_SNP} SNPs, {(g < 0).float().mean().item():.1%} missing")
    best = None
    for r in range(RESTARTS):
        q0 = torch.distributions.Dirichlet(torch.ones(K)).sample((N_IND,))
        p0 = torch.rand(K, N_SNP) * 0.8 + 0.1
        q, p, ll, steps = squarem(g, *project(q0, p0))
        print(
            f"restart {r}: log-likelihood {ll:.1f} after {steps} EM steps, matched r {match(q, q_true):.3f}"
        )
        if best is None or ll > best[2]:
            best = (q, p, ll)
    print(f"best {best[2]:.1f}; truth {loglik(g, *project(q_true, p_true)).item():.1f}")


if __name__ == "__main__":
    main()
