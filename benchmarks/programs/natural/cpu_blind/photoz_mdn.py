"""Photometric redshifts with a mixture density network.

Galaxy magnitudes in eight bands go in, a Gaussian mixture over the redshift
comes out; training minimises the negative log likelihood of the redshifts.
The catalogue is synthetic: a toy spectrum shifted through eight filters.
"""

import math
import time

import torch
from torch import nn

BANDS = 8
HIDDEN = 96
BLOCKS = 3
COMPONENTS = 64
BATCH = 4096
STEPS = 25


def make_catalogue(n, seed=5):
    g = torch.Generator().manual_seed(seed)
    # survey-like n(z): Gamma distribution with shape 2
    z = -torch.log(torch.rand(n, 2, generator=g).clamp_min(1e-6)).sum(1) / 3.0
    z = z.clamp(0.01, 3.0)
    lam = torch.linspace(0.36, 2.2, BANDS)  # micron
    rest = lam[None, :] / (1.0 + z[:, None])
    age = torch.rand(n, 1, generator=g)
    dust = 0.6 * torch.rand(n, 1, generator=g)
    # Balmer break near 0.38 micron, power law redwards of it, dust reddening
    flux = torch.sigmoid((rest - 0.38) * 30.0) * (0.4 + age) + 0.15 * (1.2 - age)
    flux = flux * rest.pow(-0.8) * torch.exp(-dust * 0.5 / rest)
    mag = 22.0 - 2.5 * torch.log10(flux) + 0.9 * z[:, None]
    mag = mag + 0.05 * torch.randn(n, BANDS, generator=g)
    mag = (mag - mag.mean(0)) / mag.std(0)
    return mag, z


class ScaleNorm(nn.Module):
    """RMS normalisation with a learned gain."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.gain


class Bump(nn.Module):
    """Smooth gated activation with a learnable bend per channel."""

    def __init__(self, dim):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(dim))
        self.gamma = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        gate = torch.sigmoid(self.beta * x)
        return x * (self.gamma + gate * (1.0 - self.gamma))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = ScaleNorm(dim)
        self.lift = nn.Linear(dim, dim)
        self.act = Bump(dim)
        self.drop = nn.Linear(dim, dim)

    def forward(self, x):
        return x + self.drop(self.act(self.lift(self.norm(x))))


class RedshiftMDN(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(BANDS, HIDDEN), Bump(HIDDEN))
        self.blocks = nn.Sequential(*[Block(HIDDEN) for _ in range(BLOCKS)])
        self.head = nn.Linear(HIDDEN, 3 * COMPONENTS)

    def forward(self, mag):
        out = self.head(self.blocks(self.stem(mag)))
        logit, mu, raw = out.chunk(3, dim=-1)
        sigma = nn.functional.softplus(raw) + 0.01
        return torch.log_softmax(logit, -1), 3.0 * torch.sigmoid(mu), sigma

    def nll(self, mag, z):
        """Mean negative log likelihood of the spectroscopic redshifts."""
        logw, mu, sigma = self(mag)
        r = (z[:, None] - mu) / sigma
        logp = logw - 0.5 * r * r - torch.log(sigma) - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(logp, -1).mean()


def main():
    torch.manual_seed(1)
    mag, z = make_catalogue(60000)
    model = torch.compile(RedshiftMDN())
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)
    g = torch.Generator().manual_seed(8)

    for step in range(STEPS + 2):
        rows = torch.randint(0, len(z), (BATCH,), generator=g)
        xb, zb = mag[rows], z[rows]
        t0 = time.perf_counter()
        loss = model.nll(xb, zb)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        ms = (time.perf_counter() - t0) * 1e3
        print(f"step {step:3d}  nll {loss.item():8.4f}   {ms:8.2f} ms")

    print(f"validation nll {model.nll(mag[-4096:], z[-4096:]).item():.4f}")


if __name__ == "__main__":
    main()
