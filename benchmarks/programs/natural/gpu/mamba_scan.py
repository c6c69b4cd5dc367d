"""Selective state-space layer with a chunked scan in log space."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Mamba(nn.Module):
    def __init__(self, dim=256, inner=512, state=16, rank=16, chunk=64):
        super().__init__()
        self.state, self.rank, self.chunk = state, rank, chunk
        self.inp = nn.Linear(dim, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.log_a = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(inner, 1))
        self.d = nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, dim, bias=False)

    def scan(self, x, dt, b, c):
        n, length, inner = x.shape
        a = -self.log_a.exp()
        h = x.new_zeros(n, inner, self.state)
        outs = []
        for s in range(0, length, self.chunk):
            e = s + self.chunk
            decay = dt[:, s:e, :, None] * a
            total = decay.cumsum(1)
            add = (dt[:, s:e] * x[:, s:e])[..., None] * b[:, s:e, None]
            inside = torch.exp(total) * torch.cumsum(add * torch.exp(-total.clamp(min=-30)), 1)
            hs = inside + torch.exp(total) * h[:, None]
            outs.append(torch.einsum("blds,bls->bld", hs, c[:, s:e]))
            h = hs[:, -1]
        return torch.cat(outs, 1)

    def forward(self, x):
        length = x.shape[1]
        u, gate = self.inp(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :length].transpose(1, 2))
        dt, b, c = self.x_proj(u).split([self.rank, self.state, self.state], -1)
        dt = F.softplus(self.dt_proj(dt)) * 0.05
        y = self.scan(u, dt, b, c) + u * self.d
        return self.out(y * F.silu(gate))


def build(device, compiled):
    torch.manual_seed(0)
    model = Mamba(chunk=pick(64, 8)).to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(pick(8, 1), pick(512, 16), 256, device=device)

    @torch.no_grad()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
