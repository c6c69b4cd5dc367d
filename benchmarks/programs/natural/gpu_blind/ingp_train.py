"""Instant-NGP-like radiance field: multi-resolution hash grid, tiny MLPs, volume rendering."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
RAYS = max(128, int(4096 * SCALE))
SAMPLES = 64 if not SMALL else 16
LEVELS = 16 if not SMALL else 4
LOG2_T = 19 if not SMALL else 12
FEATS = 2
BASE_RES, FINEST_RES = 16, 1024 if not SMALL else 128
STEPS = 60 if not SMALL else 15
NEAR, FAR = 0.6, 2.8
PRIMES = (1, 2654435761, 805459861)


class HashGrid(nn.Module):
    def __init__(self):
        super().__init__()
        growth = math.exp((math.log(FINEST_RES) - math.log(BASE_RES)) / (LEVELS - 1))
        self.resolutions = [int(BASE_RES * growth**l) for l in range(LEVELS)]
        self.tables = nn.ParameterList(
            [nn.Parameter(torch.empty(2**LOG2_T, FEATS).uniform_(-1e-4, 1e-4)) for _ in range(LEVELS)]
        )
        corners = torch.stack(torch.meshgrid(*[torch.arange(2)] * 3, indexing="ij"), -1).view(8, 3)
        self.register_buffer("corners", corners)
        self.register_buffer("primes", torch.tensor(PRIMES))

    def hash(self, coords, res):
        size = 2**LOG2_T
        if (res + 1) ** 3 <= size:
            return coords[..., 0] + (res + 1) * (coords[..., 1] + (res + 1) * coords[..., 2])
        h = coords * self.primes
        return (h[..., 0] ^ h[..., 1] ^ h[..., 2]) % size

    def forward(self, x):
        feats = []
        for table, res in zip(self.tables, self.resolutions):
            scaled = x * res
            base = scaled.floor()
            frac = (scaled - base)[:, None, :]
            coords = base.long()[:, None, :] + self.corners
            value = table[self.hash(coords, res)]
            weight = torch.where(self.corners.bool(), frac, 1 - frac).prod(-1, keepdim=True)
            feats.append((value * weight).sum(1))
        return torch.cat(feats, -1)


def sh_encode(d):
    x, y, z = d.unbind(-1)
    return torch.stack(
        [
            torch.full_like(x, 0.28209479),
            -0.48860251 * y,
            0.48860251 * z,
            -0.48860251 * x,
            1.09254843 * x * y,
            -1.09254843 * y * z,
            0.94617470 * z * z - 0.31539157,
            -1.09254843 * x * z,
            0.54627421 * (x * x - y * y),
        ],
        -1,
    )


class TruncExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.exp(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.exp(x.clamp(-15, 15))


class NGP(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = HashGrid()
        self.sigma_net = nn.Sequential(nn.Linear(LEVELS * FEATS, 64), nn.ReLU(), nn.Linear(64, 16))
        self.color_net = nn.Sequential(
            nn.Linear(15 + 9, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
        )

    def forward(self, pos, dirs):
        x = (pos + 1) / 2
        inside = ((x >= 0) & (x < 1)).all(-1)
        h = self.sigma_net(self.grid(x.clamp(0, 1 - 1e-6)))
        sigma = TruncExp.apply(h[:, 0].float()) * inside
        rgb = torch.sigmoid(self.color_net(torch.cat([h[:, 1:], sh_encode(dirs)], -1)))
        return sigma, rgb


def render(model, origins, dirs, perturb=True):
    n = origins.shape[0]
    t = torch.linspace(NEAR, FAR, SAMPLES + 1, device=origins.device)
    delta = t[1:] - t[:-1]
    ts = t[:-1].expand(n, -1)
    ts = ts + delta * (torch.rand_like(ts) if perturb else 0.5)
    pos = origins[:, None] + dirs[:, None] * ts[..., None]
    sigma, rgb = model(pos.reshape(-1, 3), dirs[:, None].expand_as(pos).reshape(-1, 3))
    sigma, rgb = sigma.view(n, SAMPLES), rgb.view(n, SAMPLES, 3).float()
    alpha = 1 - torch.exp(-sigma * delta)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
    w = alpha * trans
    color = (w[..., None] * rgb).sum(1) + (1 - w.sum(1, keepdim=True))
    depth = (w * ts).sum(1)
    return color, depth, w


def sample_rays(n):
    o = F.normalize(torch.randn(n, 3, device=DEVICE), dim=-1) * 1.7
    target = (torch.rand(n, 3, device=DEVICE) - 0.5) * 1.2
    d = F.normalize(target - o, dim=-1)
    b = (o * d).sum(-1)
    disc = b**2 - (o**2).sum(-1) + 0.25
    hit = disc > 0
    color = torch.ones(n, 3, device=DEVICE)
    p = o[hit] + d[hit] * (-b[hit] - disc[hit].sqrt())[:, None]
    color[hit] = 0.5 + 0.5 * torch.sin(p * 12.0)
    return o, d, color


def main():
    torch.manual_seed(0)
    model = NGP().to(DEVICE)
    render_fn = torch.compile(render)
    opt = torch.optim.Adam(
        [
            {"params": model.grid.tables.parameters(), "lr": 1e-2, "weight_decay": 0.0},
            {
                "params": list(model.sigma_net.parameters()) + list(model.color_net.parameters()),
                "weight_decay": 1e-6,
            },
        ],
        lr=1e-2,
        betas=(0.9, 0.99),
        eps=1e-15,
    )
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    t0 = time.time()
    for step in range(STEPS):
        o, d, gt = sample_rays(RAYS)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            color, depth, w = render_fn(model, o, d)
        loss = F.smooth_l1_loss(color, gt)
        entropy = -(w * torch.log(w + 1e-8)).sum(-1).mean()
        loss = loss + 1e-4 * entropy
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            psnr = -10 * math.log10(F.mse_loss(color, gt).item())
            print(f"iter {step} loss {loss.item():.5f} psnr {psnr:.2f} depth {depth.mean().item():.3f}")
    with torch.no_grad():
        o, d, gt = sample_rays(RAYS)
        color, _, _ = render_fn(model, o, d, perturb=False)
    print(f"eval psnr {-10 * math.log10(F.mse_loss(color, gt).item()):.2f}  ({time.time() - t0:.1f} s)")


if __name__ == "__main__":
    main()
