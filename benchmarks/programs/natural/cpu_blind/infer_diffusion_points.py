"""DDIM sampling of 3D point sets with a small adaLN MLP denoiser."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

POINTS = 4096
WIDTH = 64
DEPTH = 5
DDIM_STEPS = 4


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32) / half)
    args = t[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class AdaBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.mod = nn.Linear(width, 3 * width)
        self.fc_gate = nn.Linear(width, width)
        self.fc_val = nn.Linear(width, width)
        self.fc_out = nn.Linear(width, width)

    def forward(self, x, cond):
        shift, scale, gate = self.mod(F.silu(cond)).chunk(3, dim=-1)
        h = self.norm(x) * (1 + scale) + shift
        h = F.gelu(self.fc_gate(h), approximate="tanh") * self.fc_val(h)
        return x + torch.tanh(gate) * self.fc_out(h)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(6) * math.pi)
        self.inp = nn.Linear(3 + 3 * 2 * 6, WIDTH)
        self.temb = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.blocks = nn.ModuleList([AdaBlock(WIDTH) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x, t):
        enc = (x[:, :, None] * self.bands).flatten(1)
        h = self.inp(torch.cat([x, enc.sin(), enc.cos()], dim=-1))
        cond = self.temb(timestep_embedding(t, WIDTH))
        for blk in self.blocks:
            h = blk(h, cond)
        return self.out(self.norm(h))


def ddim_sample(net, x, alphas, ts):
    for i in range(len(ts)):
        a_t = alphas[i]
        a_prev = alphas[i + 1]
        eps = net(x, ts[i])
        x0 = (x - (1 - a_t).sqrt() * eps) / a_t.sqrt()
        x0 = x0.clamp(-2, 2)
        x = a_prev.sqrt() * x0 + (1 - a_prev).sqrt() * eps
    return x


@torch.inference_mode()
def main():
    torch.manual_seed(11)
    torch.set_num_threads(2)
    model = Denoiser().eval()
    net = torch.compile(model)

    t_grid = torch.linspace(1.0, 0.0, DDIM_STEPS + 1)
    alphas = torch.cos(t_grid * math.pi / 2 * 0.98) ** 2
    ts = [(t_grid[i] * 1000).reshape(1) for i in range(DDIM_STEPS)]

    for _ in range(3):
        ddim_sample(net, torch.randn(POINTS, 3), alphas, ts)

    n_runs = 30
    noise = torch.randn(n_runs, POINTS, 3)
    check = 0.0
    begin = time.perf_counter()
    for k in range(n_runs):
        pts = ddim_sample(net, noise[k], alphas, ts)
        check += pts.mean().item()
    took = time.perf_counter() - begin
    print(f"points={POINTS} ddim_steps={DDIM_STEPS}")
    print(f"time per iteration: {took / n_runs * 1e3:.2f} ms")
    print(f"checksum: {check:.6f}")


if __name__ == "__main__":
    main()
