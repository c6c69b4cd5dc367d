"""Fourier neural operator on a 2-d grid."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class SpectralConv(nn.Module):
    def __init__(self, ch, modes):
        super().__init__()
        self.modes = modes
        self.w1 = nn.Parameter(torch.randn(ch, ch, modes, modes, 2) / ch)
        self.w2 = nn.Parameter(torch.randn(ch, ch, modes, modes, 2) / ch)

    def forward(self, x):
        n, c, h, w = x.shape
        m = self.modes
        f = torch.fft.rfft2(x)
        out = torch.zeros(n, c, h, w // 2 + 1, dtype=f.dtype, device=x.device)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], torch.view_as_complex(self.w1))
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], torch.view_as_complex(self.w2))
        return torch.fft.irfft2(out, s=(h, w))


class FNO(nn.Module):
    def __init__(self, ch=32, modes=12, depth=3):
        super().__init__()
        self.modes = modes
        self.lift = nn.Linear(3, ch)
        self.spectral = nn.ModuleList([SpectralConv(ch, modes) for _ in range(depth)])
        self.skip = nn.ModuleList([nn.Conv2d(ch, ch, 1) for _ in range(depth)])
        self.proj = nn.Sequential(nn.Linear(ch, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, a):
        n, h, w = a.shape
        gy, gx = torch.linspace(0, 1, h, device=a.device), torch.linspace(0, 1, w, device=a.device)
        grid = torch.stack(torch.meshgrid(gy, gx, indexing="ij"), -1).expand(n, h, w, 2)
        x = self.lift(torch.cat([a[..., None], grid], -1)).permute(0, 3, 1, 2)
        for i, (s, k) in enumerate(zip(self.spectral, self.skip)):
            x = s(x) + k(x)
            if i < len(self.skip) - 1:
                x = F.gelu(x)
        return self.proj(x.permute(0, 2, 3, 1)).squeeze(-1)


def build(device, compiled):
    torch.manual_seed(0)
    model = FNO(modes=pick(12, 4)).to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    a = torch.randn(pick(20, 1), pick(256, 16), pick(256, 16), device=device)

    @torch.no_grad()
    def step():
        return model(a)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
