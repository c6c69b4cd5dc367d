"""Convolutional variational autoencoder with sampled latents."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class VAE(nn.Module):
    def __init__(self, latent=16, ch=16):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, ch, 4, 2, 1), nn.ELU(), nn.Conv2d(ch, 2 * ch, 4, 2, 1), nn.ELU(), nn.Flatten()
        )
        self.stats = nn.Linear(2 * ch * 49, 2 * latent)
        self.up = nn.Linear(latent, 2 * ch * 49)
        self.dec = nn.Sequential(
            nn.Unflatten(1, (2 * ch, 7, 7)),
            nn.ConvTranspose2d(2 * ch, ch, 4, 2, 1),
            nn.ELU(),
            nn.ConvTranspose2d(ch, 1, 4, 2, 1),
        )

    def forward(self, x):
        mu, logvar = self.stats(self.enc(x)).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        logits = self.dec(self.up(z))
        rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / x.shape[0]
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum() / x.shape[0]
        return rec + kl


def build(device, compiled):
    torch.manual_seed(0)
    model = VAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.rand(pick(64, 2), 1, 28, 28, device=device)

    def step():
        optimizer.zero_grad()
        loss = loss_fn(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
