"""Self-organising map for flow-cytometry panels (FlowSOM-like clustering).

Cells are 16-marker arcsinh-transformed events from a handful of synthetic
populations. A 20x20 map is trained in mini-batches with a shrinking
neighbourhood, then scored by quantisation error and population purity.
"""

import math
import time

import torch
from torch import nn


def arcsinh_transform(x, cofactor=5.0):
    return torch.asinh(x / cofactor)


def make_events(n=60_000, markers=16, populations=9, seed=11):
    g = torch.Generator().manual_seed(seed)
    centres = torch.randint(0, 2, (populations, markers), generator=g).float()
    centres = centres * 180.0 + 10.0 * torch.rand(populations, markers, generator=g)
    weights = torch.rand(populations, generator=g) + 0.2
    label = torch.multinomial(weights, n, replacement=True, generator=g)
    raw = centres[label] * torch.exp(0.35 * torch.randn(n, markers, generator=g))
    raw = raw + 3.0 * torch.randn(n, markers, generator=g)
    return arcsinh_transform(raw), label


class SOM(nn.Module):
    def __init__(self, rows, cols, dim, total_steps, sigma0=5.0, sigma1=0.6, lr0=0.5, lr1=0.02):
        super().__init__()
        self.rows, self.cols = rows, cols
        self.sigma0, self.sigma1 = sigma0, sigma1
        self.lr0, self.lr1 = lr0, lr1
        self.total_steps = total_steps
        self.t = 0
        yy, xx = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
        pos = torch.stack([yy.flatten(), xx.flatten()], dim=1).float()
        # hexagonal layout: shift every other row by half a cell
        pos[:, 1] += 0.5 * (pos[:, 0] % 2)
        pos[:, 0] *= math.sqrt(3) / 2
        self.register_buffer("grid_d2", torch.cdist(pos, pos) ** 2)
        self.register_buffer("codebook", torch.zeros(rows * cols, dim))

    @torch.no_grad()
    def init_from(self, x):
        mean = x.mean(0)
        _, _, v = torch.pca_lowrank(x - mean, q=2, niter=4)
        sd = ((x - mean) @ v).std(0)
        a = torch.linspace(-1.5, 1.5, self.rows).repeat_interleave(self.cols)
        b = torch.linspace(-1.5, 1.5, self.cols).repeat(self.rows)
        plane = a[:, None] * sd[0] * v[:, 0] + b[:, None] * sd[1] * v[:, 1]
        self.codebook.copy_(mean + plane)

    def distances(self, x):
        x2 = (x * x).sum(1, keepdim=True)
        w2 = (self.codebook * self.codebook).sum(1)
        return x2 + w2 - 2.0 * (x @ self.codebook.T)

    def schedule(self):
        frac = self.t / self.total_steps
        sigma = self.sigma0 * (self.sigma1 / self.sigma0) ** frac
        lr = self.lr0 * (self.lr1 / self.lr0) ** frac
        return sigma, lr

    @torch.no_grad()
    def update(self, x):
        sigma, lr = self.schedule()
        d2 = self.distances(x)
        bmu = d2.argmin(dim=1)
        qerr = d2.gather(1, bmu[:, None]).clamp_min(0.0).sqrt().mean()

        g2 = self.grid_d2[bmu]
        h = torch.exp(-g2 / (2.0 * sigma * sigma))
        h = torch.where(g2 < (3.0 * sigma) ** 2, h, torch.zeros_like(h))
        mass = h.sum(dim=0)
        target = (h.T @ x) / mass.clamp_min(1e-6)[:, None]
        rate = lr * (mass / (mass + 1.0))
        self.codebook.add_(rate[:, None] * (target - self.codebook))
        self.t += 1
        return qerr

    @torch.no_grad()
    def assign(self, x):
        return torch.cat([self.distances(c).argmin(1) for c in x.split(8192)])


def purity(nodes, label, n_nodes, n_pop):
    table = torch.zeros(n_nodes * n_pop, dtype=torch.long)
    table.index_add_(0, nodes * n_pop + label, torch.ones_like(label))
    table = table.view(n_nodes, n_pop)
    return (table.max(1).values.sum() / table.sum()).item()


def main():
    torch.manual_seed(0)
    x, label = make_events()
    batch, steps, warm = 1024, 400, 5
    som = SOM(20, 20, x.shape[1], total_steps=steps + warm)
    som.init_from(x[:5000])
    update = torch.compile(som.update)

    g = torch.Generator().manual_seed(5)
    for _ in range(warm):
        update(x[torch.randint(0, len(x), (batch,), generator=g)])

    history = []
    t0 = time.perf_counter()
    for _ in range(steps):
        idx = torch.randint(0, len(x), (batch,), generator=g)
        history.append(update(x[idx]))
    dt = (time.perf_counter() - t0) / steps

    q = torch.stack(history)
    first, last = q[:20].mean().item(), q[-20:].mean().item()
    p = purity(som.assign(x), label, som.rows * som.cols, int(label.max()) + 1)
    assert last < first and p > 0.9, (first, last, p)
    print(f"quantisation error {first:.3f} -> {last:.3f}, purity {p:.3f}")
    print(f"{dt * 1e3:.2f} ms per call")


if __name__ == "__main__":
    main()
