"""Ensemble downscaling of rain fields: an EDM-preconditioned U-Net sampled with Heun's method.

A coarse forecast (8x coarser) conditions the denoiser; a batch holds the ensemble members of one date."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
MEMBERS, SIZE, DATES, NUM_STEPS = 16, 256, 6, 18
WIDTHS = (64, 128, 256)
COND = 4  # rain, wind u, wind v, orography
SIGMA_DATA = 0.5


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, c_emb, attn=False):
        super().__init__()
        self.norm0 = nn.GroupNorm(16, c_in)
        self.conv0 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.affine = nn.Linear(c_emb, 2 * c_out)
        self.norm1 = nn.GroupNorm(16, c_out)
        self.conv1 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()
        self.norm2 = nn.GroupNorm(16, c_out) if attn else None
        if attn:
            self.qkv = nn.Conv2d(c_out, 3 * c_out, 1)
            self.proj = nn.Conv2d(c_out, c_out, 1)

    def forward(self, x, emb):
        h = self.conv0(F.silu(self.norm0(x)))
        scale, shift = self.affine(emb)[:, :, None, None].chunk(2, dim=1)
        h = F.silu(torch.addcmul(shift, self.norm1(h), scale + 1))
        x = (self.conv1(h) + self.skip(x)) * 0.5**0.5
        if self.norm2 is not None:
            b, c, hh, ww = x.shape
            tokens = self.qkv(self.norm2(x)).flatten(2).transpose(1, 2).contiguous()
            q, k, v = tokens.view(b, hh * ww, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, hh, ww)
            x = (x + self.proj(a)) * 0.5**0.5
        return x


class UNet(nn.Module):
    def __init__(self, c_in=1 + COND, c_emb=256):
        super().__init__()
        self.freqs = nn.Buffer(torch.exp(torch.linspace(0, 6, c_emb // 4)))
        self.embed = nn.Sequential(
            nn.Linear(c_emb // 2, c_emb), nn.SiLU(), nn.Linear(c_emb, c_emb), nn.SiLU()
        )
        self.first = nn.Conv2d(c_in, WIDTHS[0], 3, padding=1)
        self.down, self.up, skips, c = nn.ModuleList(), nn.ModuleList(), [WIDTHS[0]], WIDTHS[0]
        for level, width in enumerate(WIDTHS):
            if level:
                self.down.append(nn.Conv2d(c, c, 3, stride=2, padding=1))
                skips.append(c)
            for _ in range(2):
                self.down.append(ResBlock(c, width, c_emb, attn=level == 2))
                c = width
                skips.append(c)
        self.mid = nn.ModuleList([ResBlock(c, c, c_emb, attn=True), ResBlock(c, c, c_emb)])
        for level, width in reversed(list(enumerate(WIDTHS))):
            for _ in range(3):
                self.up.append(ResBlock(c + skips.pop(), width, c_emb, attn=level == 2))
                c = width
            if level:
                self.up.append(nn.Conv2d(c, c, 3, padding=1))
        self.norm = nn.GroupNorm(16, c)
        self.last = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, c_noise):
        phase = c_noise[:, None] * self.freqs
        emb = self.embed(torch.cat([phase.cos(), phase.sin()], dim=1))
        x = self.first(x)
        skips = [x]
        for m in self.down:
            x = m(x, emb) if isinstance(m, ResBlock) else m(x)
            skips.append(x)
        for m in self.mid:
            x = m(x, emb)
        for m in self.up:
            if isinstance(m, ResBlock):
                x = m(torch.cat([x, skips.pop()], dim=1), emb)
            else:
                x = m(F.interpolate(x, scale_factor=2, mode="nearest"))
        return self.last(F.silu(self.norm(x)))


class EDMDenoiser(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, sigma, cond):
        x = x.float()
        sigma = sigma.float().reshape(-1, 1, 1, 1)
        c_skip = SIGMA_DATA**2 / (sigma**2 + SIGMA_DATA**2)
        c_out = sigma * SIGMA_DATA / (sigma**2 + SIGMA_DATA**2).sqrt()
        c_in = 1 / (SIGMA_DATA**2 + sigma**2).sqrt()
        c_noise = sigma.flatten().log() / 4
        with torch.autocast(device, dtype=torch.bfloat16):
            f = self.net(torch.cat([c_in * x, cond], dim=1), c_noise.expand(x.size(0)))
        return c_skip * x + c_out * f.float()


@torch.no_grad()
def edm_sampler(
    denoise,
    latents,
    cond,
    num_steps=NUM_STEPS,
    sigma_min=0.002,
    sigma_max=80.0,
    rho=7,
    s_churn=10,
    s_noise=1.003,
):
    i = torch.arange(num_steps, dtype=torch.float64, device=latents.device)
    t = (
        sigma_max ** (1 / rho) + i / (num_steps - 1) * (sigma_min ** (1 / rho) - sigma_max ** (1 / rho))
    ) ** rho
    t = torch.cat([t, torch.zeros_like(t[:1])])
    x_next = latents.to(torch.float64) * t[0]
    for i, (t_cur, t_next) in enumerate(zip(t[:-1], t[1:])):
        gamma = min(s_churn / num_steps, np.sqrt(2) - 1)
        t_hat = t_cur + gamma * t_cur
        x_hat = x_next + (t_hat**2 - t_cur**2).sqrt() * s_noise * torch.randn_like(x_next)
        d_cur = (x_hat - denoise(x_hat, t_hat, cond).to(torch.float64)) / t_hat
        x_next = x_hat + (t_next - t_hat) * d_cur
        if i < num_steps - 1:
            d_prime = (x_next - denoise(x_next, t_next, cond).to(torch.float64)) / t_next
            x_next = x_hat + (t_next - t_hat) * (0.5 * d_cur + 0.5 * d_prime)
    return x_next


def main():
    torch.manual_seed(11)
    model = EDMDenoiser(UNet()).to(device).eval()
    denoise = torch.compile(model)
    for date in range(DATES):
        coarse = torch.randn(1, COND, SIZE // 8, SIZE // 8, device=device)
        cond = F.interpolate(coarse, size=(SIZE, SIZE), mode="bilinear").expand(MEMBERS, -1, -1, -1)
        latents = torch.randn(MEMBERS, 1, SIZE, SIZE, device=device)
        fields = edm_sampler(denoise, latents, cond)
        rain = torch.expm1(fields.clamp(-5, 5).float()).clamp(min=0)
        spread = rain.std(dim=0).mean()
        heavy = (rain > 5.0).float().mean()
        print(f"date {date}: mean {rain.mean():.3f}  spread {spread:.3f}  share above 5 mm/h {heavy:.4f}")


if __name__ == "__main__":
    main()
