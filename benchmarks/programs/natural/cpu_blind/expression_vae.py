"""Negative-binomial VAE for single-cell counts (scVI-like, trimmed down)."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

torch.set_num_threads(2)

GENES, CELLS, TYPES = 1500, 4096, 6
BATCH, LATENT, HIDDEN = 256, 16, 192
WARMUP_STEPS = 40
STEPS = 56


def simulate_counts(seed=3):
    g = torch.Generator().manual_seed(seed)
    base = torch.randn(GENES, generator=g) - 1.0
    programs = torch.randn(TYPES, GENES, generator=g) * (torch.rand(TYPES, GENES, generator=g) < 0.08) * 2.0
    labels = torch.randint(0, TYPES, (CELLS,), generator=g)
    depth = torch.exp(0.3 * torch.randn(CELLS, 1, generator=g))
    rate = depth * torch.exp(base + programs[labels])
    torch.manual_seed(seed)
    rate = torch.distributions.Gamma(2.0, 2.0 / rate).sample()
    return torch.poisson(rate, generator=g), labels


def nb_log_prob(x, mu, theta, eps=1e-8):
    log_theta_mu = torch.log(theta + mu + eps)
    return (
        theta * (torch.log(theta + eps) - log_theta_mu)
        + x * (torch.log(mu + eps) - log_theta_mu)
        + torch.lgamma(x + theta)
        - torch.lgamma(theta)
        - torch.lgamma(x + 1)
    )


class ExpressionVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(GENES, HIDDEN),
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(HIDDEN, HIDDEN),
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(),
        )
        self.z_mean = nn.Linear(HIDDEN, LATENT)
        self.z_logvar = nn.Linear(HIDDEN, LATENT)
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, GENES)
        )
        self.log_theta = nn.Parameter(torch.zeros(GENES))
        self.global_step = 0

    @property
    def kl_weight(self):
        return min(1.0, self.global_step / WARMUP_STEPS)

    def encode(self, x):
        hid = self.encoder(torch.log1p(x))
        return self.z_mean(hid), self.z_logvar(hid).clamp(-6, 4)

    def forward(self, x):
        mean, logvar = self.encode(x)
        q = Normal(mean, torch.exp(0.5 * logvar), validate_args=False)
        z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        lib = x.sum(dim=1, keepdim=True)
        mu = lib * F.softmax(self.decoder(z), dim=-1)
        recon = -nb_log_prob(x, mu, self.log_theta.exp()).sum(-1)
        prior = Normal(torch.zeros_like(mean), torch.ones_like(mean), validate_args=False)
        kl = kl_divergence(q, prior).sum(-1)
        if self.training:
            self.global_step += 1
        return (recon + self.kl_weight * kl).mean(), recon.mean(), kl.mean()


def separation(z, labels):
    """Between-type over within-type variance of the latent means."""
    centres = torch.stack([z[labels == k].mean(0) for k in range(TYPES)])
    within = ((z - centres[labels]) ** 2).sum(1).mean()
    between = ((centres - z.mean(0)) ** 2).sum(1).mean()
    return (between / within).item()


def main():
    counts, labels = simulate_counts()
    print(f"{CELLS} cells x {GENES} genes, {float((counts == 0).float().mean()):.0%} zeros")
    torch.manual_seed(0)
    model = ExpressionVAE()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    order = torch.randperm(CELLS)
    t0 = time.time()
    net.train()
    for step in range(STEPS):
        lo = step * BATCH % CELLS
        x = counts[order[lo : lo + BATCH]]
        loss, recon, kl = net(x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 8 == 7:
            print(
                f"step {step + 1:3d} loss {loss.item():9.2f} recon {recon.item():9.2f} "
                f"kl {kl.item():6.2f} w {model.kl_weight:.2f} [{time.time() - t0:.1f}s]"
            )
    model.eval()
    with torch.no_grad():
        z, _ = model.encode(counts)
    print(f"latent separation {separation(z, labels):.3f}")


if __name__ == "__main__":
    main()
