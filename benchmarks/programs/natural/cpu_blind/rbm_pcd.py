"""Restricted Boltzmann machine over shopping baskets.

Persistent contrastive divergence (Tieleman 2008) with fantasy particles,
momentum and weight decay. After training the free energy is used to flag odd
baskets and the chain is used to complete partly filled ones.
"""

import time

import torch
import torch.nn.functional as F

torch.manual_seed(0)

N_ITEMS = 1200
N_HIDDEN = 320
BATCH = 512
PARTICLES = 512
GIBBS = 5


def make_baskets(n):
    """Baskets are noisy unions of a few 'recipes'."""
    recipes = torch.rand(60, N_ITEMS) < 0.02
    pick = (torch.rand(n, 60) < 0.05).float()
    base = (pick @ recipes.float()).clamp(max=1)
    keep = torch.rand_like(base) < 0.85
    noise = torch.rand_like(base) < 0.003
    return ((base.bool() & keep) | noise).float()


class RBM:
    def __init__(self, nv, nh):
        self.W = torch.randn(nv, nh) * 0.01
        self.a = torch.full((nv,), -3.0)
        self.b = torch.zeros(nh)
        self.mW = torch.zeros_like(self.W)
        self.ma = torch.zeros_like(self.a)
        self.mb = torch.zeros_like(self.b)

    def p_h(self, v):
        return torch.sigmoid(torch.addmm(self.b, v, self.W))

    def p_v(self, h):
        return torch.sigmoid(torch.addmm(self.a, h, self.W.t()))

    def free_energy(self, v):
        return -(v @ self.a) - F.softplus(torch.addmm(self.b, v, self.W)).sum(1)

    def gibbs(self, v, k):
        for _ in range(k):
            h = torch.bernoulli(self.p_h(v))
            v = torch.bernoulli(self.p_v(h))
        return v

    def update(self, data, particles, lr, momentum, decay):
        particles = self.gibbs(particles, GIBBS)
        ph_data = self.p_h(data)
        ph_model = self.p_h(particles)
        gW = data.t() @ ph_data / len(data) - particles.t() @ ph_model / len(particles)
        ga = data.mean(0) - particles.mean(0)
        gb = ph_data.mean(0) - ph_model.mean(0)
        self.mW.mul_(momentum).add_(gW - decay * self.W)
        self.ma.mul_(momentum).add_(ga)
        self.mb.mul_(momentum).add_(gb)
        self.W.add_(self.mW, alpha=lr)
        self.a.add_(self.ma, alpha=lr)
        self.b.add_(self.mb, alpha=lr)
        recon = self.p_v(ph_data)
        err = F.binary_cross_entropy(recon, data, reduction="sum") / len(data)
        return particles, err


def complete(rbm, v, known, steps=20):
    """Clamp the known items, sample the rest, return mean-field marginals."""
    x = v.clone()
    acc = torch.zeros_like(v)
    for s in range(steps):
        h = torch.bernoulli(rbm.p_h(x))
        p = rbm.p_v(h)
        x = torch.where(known, v, torch.bernoulli(p))
        if s >= steps // 2:
            acc += p
    return acc / (steps - steps // 2)


def main():
    baskets = make_baskets(12512)
    data, test = baskets[:-512], baskets[-512:]
    rbm = RBM(N_ITEMS, N_HIDDEN)
    particles = data[torch.randint(0, len(data), (PARTICLES,))].clone()
    train_step = torch.compile(rbm.update)

    t0 = time.time()
    for epoch in range(8):
        perm = torch.randperm(len(data))
        total, nb = 0.0, 0
        for i in range(0, len(data) - BATCH + 1, BATCH):
            particles, err = train_step(data[perm[i : i + BATCH]], particles, 0.1, 0.5, 1e-4)
            total += err.item()
            nb += 1
        gap = rbm.free_energy(test).mean() - rbm.free_energy(data[:512]).mean()
        print(
            f"epoch {epoch:2d}  recon {total / nb:8.3f}  F gap {gap.item():+.3f}  "
            f"density {particles.mean().item():.4f}  {time.time() - t0:.1f}s"
        )

    known = torch.rand_like(test) < 0.7
    marg = complete(rbm, test * known, known)
    hidden_true = test.bool() & ~known
    top = marg.masked_fill(known, -1).topk(20, dim=1).indices
    hits = hidden_true.gather(1, top).sum().item()
    print(f"recall@20 on held-out items: {hits / hidden_true.sum().item():.3f}")


if __name__ == "__main__":
    main()
