"""Flow-matching pretraining of a small DiT on procedurally generated 'texture' latents.

python g_flow_dit.py             # one GPU
SMOKE=1 python g_flow_dit.py     # tiny CPU run
"""

import copy
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
CFG = (
    dict(dim=64, depth=2, heads=4, batch=4, steps=4)
    if SMOKE
    else dict(dim=768, depth=8, heads=12, batch=128, steps=50)
)
RES, CH, PATCH, CLASSES = 32, 4, 2, 10


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        xf = x.float()
        xf = xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + self.eps)
        return (xf * self.weight).to(x.dtype)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.qn, self.kn = RMSNorm(dim // heads), RMSNorm(dim // heads)
        self.proj = nn.Linear(dim, dim)
        hidden = int(dim * 8 / 3) // 64 * 64
        self.w12 = nn.Linear(dim, 2 * hidden)
        self.w3 = nn.Linear(hidden, dim)
        self.ada = nn.Linear(dim, 6 * dim)
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(F.silu(c)).chunk(6, dim=-1)
        B, N, D = x.shape
        q, k, v = (
            self.qkv(modulate(self.norm1(x), b1, s1)).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        a = F.scaled_dot_product_attention(self.qn(q), self.kn(k), v)
        x = x + g1.unsqueeze(1) * self.proj(a.transpose(1, 2).reshape(B, N, D))
        u, w = self.w12(modulate(self.norm2(x), b2, s2)).chunk(2, dim=-1)
        return x + g2.unsqueeze(1) * self.w3(F.silu(u) * w)


class DiT(nn.Module):
    def __init__(self, dim, depth, heads):
        super().__init__()
        self.patchify = nn.Conv2d(CH, dim, PATCH, stride=PATCH)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (RES // PATCH) ** 2, dim))
        self.register_buffer("freqs", torch.exp(-math.log(1e4) * torch.arange(128) / 128))
        self.t_mlp = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.y_emb = nn.Embedding(CLASSES + 1, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, CH * PATCH * PATCH)
        nn.init.zeros_(self.head.weight)

    def forward(self, x, t, y):
        B = x.shape[0]
        arg = 1000.0 * t[:, None] * self.freqs
        c = self.t_mlp(torch.cat([arg.cos(), arg.sin()], -1)) + self.y_emb(y)
        h = self.patchify(x).flatten(2).transpose(1, 2) + self.pos
        for blk in self.blocks:
            h = blk(h, c)
        h = self.head(self.norm(h))
        g = RES // PATCH
        return h.view(B, g, g, PATCH, PATCH, CH).permute(0, 5, 1, 3, 2, 4).reshape(B, CH, RES, RES)


def sample_latents(batch, gen):
    """Oriented gratings whose frequency and angle are set by the class, plus a soft envelope."""
    y = torch.randint(CLASSES, (batch,), device=DEVICE, generator=gen)
    u = torch.linspace(-1, 1, RES, device=DEVICE)
    yy, xx = torch.meshgrid(u, u, indexing="ij")
    ang = y.float() * math.pi / CLASSES
    phase = 2 * math.pi * torch.rand(batch, CH, 1, 1, device=DEVICE, generator=gen)
    proj = ang.cos()[:, None, None] * xx + ang.sin()[:, None, None] * yy
    freq = (4 + y.float())[:, None, None, None]
    img = torch.sin(freq * proj[:, None] + phase) * torch.exp(-(xx**2 + yy**2))
    return img, y


@torch.no_grad()
def generate(model, n, nfe=20):
    x = torch.randn(n, CH, RES, RES, device=DEVICE)
    y = torch.arange(n, device=DEVICE) % CLASSES
    for i in range(nfe):
        t = torch.full((n,), i / nfe, device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            x = x + model(x, t, y).float() / nfe
    return x


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    gen = torch.Generator(device=DEVICE).manual_seed(1)
    model = DiT(CFG["dim"], CFG["depth"], CFG["heads"]).to(DEVICE)
    ema = copy.deepcopy(model).requires_grad_(False)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters")
    opt = torch.optim.AdamW(
        model.parameters(), lr=2e-4, betas=(0.9, 0.95), weight_decay=0.01, fused=not SMOKE
    )
    net = torch.compile(model)
    params, ema_params = list(model.parameters()), list(ema.parameters())

    tic, running = time.time(), torch.zeros((), device=DEVICE)
    for step in range(CFG["steps"]):
        x1, y = sample_latents(CFG["batch"], gen)
        drop = torch.rand(y.shape, device=DEVICE, generator=gen) < 0.1
        y = torch.where(drop, CLASSES, y)
        x0 = torch.randn(x1.shape, device=DEVICE, generator=gen)
        t = torch.sigmoid(torch.randn(y.shape, device=DEVICE, generator=gen))
        xt = torch.lerp(x0, x1, t[:, None, None, None])
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            v = net(xt, t, y)
        loss = F.mse_loss(v.float(), x1 - x0)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch._foreach_lerp_(ema_params, [p.detach() for p in params], 1e-2)
        running += loss.detach()
        if (step + 1) % 10 == 0 or step + 1 == CFG["steps"]:
            print(
                f"step {step + 1:4d}  mean loss {running.item() / (step + 1):.4f}  {time.time() - tic:.1f}s"
            )
    s = generate(ema, 2 if SMOKE else 40)
    print(f"EMA samples: mean {s.mean().item():+.3f} std {s.std().item():.3f}")


if __name__ == "__main__":
    main()
