"""One reverse step with classifier-free guidance, dynamic thresholding and fresh noise."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Denoiser(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.cond = nn.Linear(256, ch)
        self.mid = nn.Sequential(
            nn.GroupNorm(8, ch),
            nn.SiLU(),
            nn.Conv2d(ch, ch, 3, padding=1),
            nn.GroupNorm(8, ch),
            nn.SiLU(),
            nn.Conv2d(ch, ch, 3, padding=1),
        )
        self.out = nn.Conv2d(ch, 4, 3, padding=1)

    def forward(self, x, cond):
        h = self.inp(x) + self.cond(cond)[:, :, None, None]
        return self.out(F.silu(h + self.mid(h)))


def ddim_step(model, x, cond, uncond, alphas, t, guidance=5.0, eta=0.3):
    eps = model(torch.cat([x, x]), torch.cat([cond, uncond]))
    eps_c, eps_u = eps.chunk(2)
    eps = eps_u + guidance * (eps_c - eps_u)
    a, a_prev = alphas[t], alphas[(t - 20).clamp(min=0)]
    x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
    limit = torch.quantile(x0.flatten(1).abs(), 0.995, dim=1).clamp(min=1.0)[:, None, None, None]
    x0 = torch.clamp(x0, -limit, limit) / limit
    sigma = eta * ((1 - a_prev) / (1 - a)).sqrt() * (1 - a / a_prev).sqrt()
    direction = (1 - a_prev - sigma**2).clamp(min=0).sqrt() * eps
    return a_prev.sqrt() * x0 + direction + sigma * torch.randn_like(x)


def build(device, compiled):
    torch.manual_seed(0)
    model = Denoiser().to(device).eval()
    side, n = pick(64, 16), pick(8, 2)
    betas = torch.linspace(1e-4, 0.02, 1000, device=device)
    alphas = torch.cumprod(1 - betas, 0)
    x = torch.randn(n, 4, side, side, device=device)
    cond, uncond = torch.randn(n, 256, device=device), torch.zeros(n, 256, device=device)
    t = torch.tensor(500, device=device)
    run = torch.compile(ddim_step, backend=BACKEND) if compiled else ddim_step

    @torch.no_grad()
    def step():
        return run(model, x, cond, uncond, alphas, t)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
