"""Vector-quantised autoencoder: codebook search, straight-through, EMA codebook."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Quantizer(nn.Module):
    def __init__(self, codes=1024, dim=64, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("codebook", torch.randn(codes, dim))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codebook.clone())

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codebook.T + self.codebook.pow(2).sum(1)
        index = dist.argmin(1)
        quant = self.codebook[index].view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        if self.training:
            with torch.no_grad():
                onehot = F.one_hot(index, self.codebook.shape[0]).to(flat.dtype)
                self.counts.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
                self.sums.mul_(self.decay).add_(onehot.T @ flat, alpha=1 - self.decay)
                self.codebook.copy_(self.sums / (self.counts + 1e-5).unsqueeze(1))
        commit = F.mse_loss(z, quant.detach())
        return z + (quant - z).detach(), 0.25 * commit


class VQVAE(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(3, ch, 4, 2, 1), nn.ReLU(), nn.Conv2d(ch, ch, 4, 2, 1), nn.ReLU(), nn.Conv2d(ch, 64, 1)
        )
        self.vq = Quantizer()
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(64, ch, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(ch, 3, 4, 2, 1)
        )

    def forward(self, x):
        q, commit = self.vq(self.enc(x))
        return F.mse_loss(self.dec(q), x) + commit


def build(device, compiled):
    torch.manual_seed(0)
    model = VQVAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    loss_fn = torch.compile(model, backend=BACKEND) if compiled else model
    side = pick(128, 16)
    x = torch.rand(pick(32, 2), 3, side, side, device=device)

    def step():
        loss = loss_fn(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
