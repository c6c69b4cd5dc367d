"""Online variational Bayes for LDA (Hoffman et al. 2010) on support-forum posts.

The corpus is streamed in minibatches of bag-of-words vectors.  For each batch
the E-step iterates the per-document Dirichlet parameters, the M-step blends
the sufficient statistics into the global topic-word parameters.
"""

import argparse
import time

import numpy as np
import torch

TOPICS = 40
VOCAB = 6000
ALPHA = 1.0 / TOPICS
ETA = 0.01
TAU0, KAPPA = 16.0, 0.7
EPS = 1e-30


def dirichlet_expectation(x):
    return torch.digamma(x) - torch.digamma(x.sum(dim=-1, keepdim=True))


@torch.compile
def e_step(counts, exp_elog_beta, gamma, n_inner: int):
    for _ in range(n_inner):
        exp_elog_theta = torch.exp(dirichlet_expectation(gamma))
        phi_norm = exp_elog_theta @ exp_elog_beta + EPS
        gamma = ALPHA + exp_elog_theta * ((counts / phi_norm) @ exp_elog_beta.T)
    exp_elog_theta = torch.exp(dirichlet_expectation(gamma))
    phi_norm = exp_elog_theta @ exp_elog_beta + EPS
    sstats = exp_elog_beta * (exp_elog_theta.T @ (counts / phi_norm))
    return gamma, sstats


@torch.compile
def m_step(lam, sstats, rho, scale):
    lam = (1 - rho) * lam + rho * (ETA + scale * sstats)
    return lam, torch.exp(dirichlet_expectation(lam))


@torch.compile
def bound(counts, gamma, elog_theta_beta_norm, lam):
    """Per-word variational bound (documents part), used as perplexity proxy."""
    score = (counts * torch.log(elog_theta_beta_norm + EPS)).sum()
    elog_theta = dirichlet_expectation(gamma)
    score = score + ((ALPHA - gamma) * elog_theta).sum()
    score = score + (torch.lgamma(gamma).sum() - torch.lgamma(gamma.sum(1)).sum())
    return score / counts.sum()


class Corpus:
    """Synthetic posts: Zipfian topics over a Zipfian vocabulary."""

    def __init__(self, n_docs, seed):
        rng = np.random.default_rng(seed)
        zipf = 1.0 / np.arange(1, VOCAB + 1)
        topics = rng.dirichlet(0.03 * VOCAB * zipf / zipf.sum() + 0.002, size=TOPICS)
        self.docs = []
        for _ in range(n_docs):
            theta = rng.dirichlet(np.full(TOPICS, 0.08))
            length = int(rng.lognormal(4.4, 0.5)) + 10
            words = rng.choice(VOCAB, size=length, p=theta @ topics)
            self.docs.append(np.unique(words, return_counts=True))

    def __len__(self):
        return len(self.docs)

    def batches(self, size):
        for start in range(0, len(self.docs) - size + 1, size):
            dense = torch.zeros(size, VOCAB)
            for row, (ids, cnt) in enumerate(self.docs[start : start + size]):
                dense[row, torch.from_numpy(ids)] = torch.from_numpy(cnt).float()
            yield dense


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--docs", type=int, default=4096)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--inner", type=int, default=20)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()

    corpus = Corpus(args.docs, args.seed)
    torch.manual_seed(args.seed)
    gamma_dist = torch.distributions.Gamma(100.0, 100.0)
    lam = gamma_dist.sample((TOPICS, VOCAB))
    exp_elog_beta = torch.exp(dirichlet_expectation(lam))
    scale = torch.tensor(len(corpus) / args.batch)

    t_start = None
    per_word = []
    for step, counts in enumerate(corpus.batches(args.batch)):
        if step == 2:  # first two batches pay for compilation
            t_start, t_step = time.perf_counter(), 2
        rho = torch.tensor((TAU0 + step) ** -KAPPA)
        gamma0 = gamma_dist.sample((args.batch, TOPICS))
        gamma, sstats = e_step(counts, exp_elog_beta, gamma0, args.inner)
        norm = torch.exp(dirichlet_expectation(gamma)) @ exp_elog_beta
        per_word.append(bound(counts, gamma, norm, lam).item())
        lam, exp_elog_beta = m_step(lam, sstats, rho, scale)
    dt = time.perf_counter() - t_start
    n = step + 1 - t_step

    print(f"bound per word: first {per_word[0]:.3f}, last {np.mean(per_word[-4:]):.3f}")
    top = lam.topk(6, dim=1).indices[:4]
    for k, ids in enumerate(top.tolist()):
        print(f"  topic {k}: " + " ".join(f"w{i}" for i in ids))
    print(f"{n} batches of {args.batch} posts in {dt:.2f} s ({1e3 * dt / n:.1f} ms per batch)")


if __name__ == "__main__":
    main()
