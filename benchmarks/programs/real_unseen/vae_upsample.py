"""Trains a convolutional image VAE with nearest-neighbour upsampling in fp16 autocast with GradScaler, EMA weights and channels-last layout."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Res(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(16, i), nn.GroupNorm(16, o)
        self.c1, self.c2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x):
        h = self.c1(F.silu(self.n1(x)))
        h = self.c2(F.silu(self.n2(h)))
        return self.skip(x) + h


class Up(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class VAE(nn.Module):
    def __init__(self, widths=(64, 128, 192), z=8):
        super().__init__()
        a, b, c = widths
        self.enc = nn.Sequential(
            nn.Conv2d(3, a, 3, padding=1),
            Res(a, a),
            nn.Conv2d(a, a, 3, 2, 1),
            Res(a, b),
            nn.Conv2d(b, b, 3, 2, 1),
            Res(b, c),
            nn.Conv2d(c, c, 3, 2, 1),
            Res(c, c),
            nn.GroupNorm(16, c),
            nn.SiLU(),
            nn.Conv2d(c, 2 * z, 3, padding=1),
        )
        self.dec = nn.Sequential(
            nn.Conv2d(z, c, 3, padding=1),
            Res(c, c),
            Up(c),
            Res(c, b),
            Up(b),
            Res(b, a),
            Up(a),
            Res(a, a),
            nn.GroupNorm(16, a),
            nn.SiLU(),
            nn.Conv2d(a, 3, 3, padding=1),
        )

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        logvar = logvar.clamp(-20, 10)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = 0.5 * (mu.float() ** 2 + logvar.float().exp() - 1 - logvar.float()).mean()
        return self.dec(z), kl


def shapes(n, size, gen):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    c = torch.rand(n, 2, 1, 1, generator=gen) * 1.2 - 0.6
    r = torch.rand(n, 1, 1, generator=gen) * 0.3 + 0.1
    col = torch.rand(n, 3, 1, 1, generator=gen) * 2 - 1
    d = ((xx - c[:, 0]) ** 2 + (yy - c[:, 1]) ** 2).sqrt()
    return torch.sigmoid(40 * (r - d)).unsqueeze(1) * col


@torch.no_grad()
def ema_update(ema, model, decay=0.95):
    torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1 - decay)


def main():
    torch.manual_seed(10)
    torch.backends.cudnn.benchmark = True
    gen = torch.Generator().manual_seed(10)
    data = shapes(256, 128, gen).cuda().to(memory_format=torch.channels_last)
    model = VAE().cuda().to(memory_format=torch.channels_last)
    ema = copy.deepcopy(model).requires_grad_(False)
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(24):
        x = data[torch.randint(0, 256, (16,), generator=gen).cuda()]
        with torch.autocast("cuda", dtype=torch.float16):
            rec, kl = net(x)
            loss = F.l1_loss(rec.float(), x) + 1e-4 * kl
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        ema_update(ema, model)
    with torch.no_grad():
        rec, _ = ema(data[:32])
    print(
        "train loss %.4f ema recon %.4f scale %g"
        % (loss.item(), F.l1_loss(rec, data[:32]).item(), scaler.get_scale())
    )


if __name__ == "__main__":
    main()
