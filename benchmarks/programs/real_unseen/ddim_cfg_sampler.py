"""Samples images from a randomly initialised class-conditional diffusion UNet with DDIM and classifier-free guidance in fp16, reduce-overhead mode."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    args = t[:, None].float() * freqs
    return torch.cat([args.cos(), args.sin()], -1)


class ResBlock(nn.Module):
    def __init__(self, i, o, emb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, i), nn.Conv2d(i, o, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, o), nn.Conv2d(o, o, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(e))[:, :, None, None].chunk(2, 1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.skip(x) + self.conv2(F.silu(h))


class Attn(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.norm, self.qkv, self.out, self.heads = (
            nn.GroupNorm(32, c),
            nn.Conv2d(c, 3 * c, 1),
            nn.Conv2d(c, c, 1),
            heads,
        )

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (
            self.qkv(self.norm(x))
            .reshape(b, 3, self.heads, c // self.heads, h * w)
            .transpose(-1, -2)
            .unbind(1)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, ch=128, classes=10):
        super().__init__()
        emb = 4 * ch
        self.ch = ch
        self.time = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(classes + 1, emb)
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.d1, self.down1 = ResBlock(ch, ch, emb), nn.Conv2d(ch, ch, 3, 2, 1)
        self.d2, self.down2 = ResBlock(ch, 2 * ch, emb), nn.Conv2d(2 * ch, 2 * ch, 3, 2, 1)
        self.m1, self.attn, self.m2 = (
            ResBlock(2 * ch, 2 * ch, emb),
            Attn(2 * ch),
            ResBlock(2 * ch, 2 * ch, emb),
        )
        self.u2, self.u1 = ResBlock(4 * ch, ch, emb), ResBlock(2 * ch, ch, emb)
        self.out = nn.Sequential(nn.GroupNorm(32, ch), nn.SiLU(), nn.Conv2d(ch, 3, 3, padding=1))

    def forward(self, x, t, y):
        e = self.time(timestep_embedding(t, self.ch).to(x.dtype)) + self.label(y)
        s1 = self.d1(self.stem(x), e)
        s2 = self.d2(self.down1(s1), e)
        h = self.m2(self.attn(self.m1(self.down2(s2), e)), e)
        h = self.u2(torch.cat([F.interpolate(h, scale_factor=2), s2], 1), e)
        h = self.u1(torch.cat([F.interpolate(h, scale_factor=2), s1], 1), e)
        return self.out(h)


@torch.inference_mode()
def main():
    torch.manual_seed(11)
    net = UNet().cuda().half().eval()
    model = torch.compile(net, mode="reduce-overhead")
    betas = torch.linspace(1e-4, 0.02, 1000, device="cuda", dtype=torch.float64)
    abar = torch.cumprod(1 - betas, 0).float()
    times = torch.linspace(999, 0, 30, device="cuda").round().long()
    y = torch.arange(16, device="cuda") % 10
    labels = torch.cat([y, torch.full_like(y, 10)])
    x = torch.randn(16, 3, 64, 64, device="cuda")
    for i, t in enumerate(times):
        both = torch.cat([x, x]).half()
        eps_c, eps_u = model(both, t.expand(32).contiguous(), labels).float().chunk(2)
        eps = eps_u + 3.0 * (eps_c - eps_u)
        a = abar[t]
        a_prev = abar[times[i + 1]] if i + 1 < len(times) else torch.ones_like(a)
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
        x = a_prev.sqrt() * x0 + (1 - a_prev).sqrt() * eps
    print("sample mean %.5f std %.5f" % (x.mean().item(), x.std().item()))


if __name__ == "__main__":
    main()
