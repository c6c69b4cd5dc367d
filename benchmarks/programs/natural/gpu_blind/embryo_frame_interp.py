"""Frame interpolation for embryo time-lapse movies.

The incubator camera drops a frame now and then.  We train an adaptive separable convolution network (Niklaus et al.)
on triplets (before, middle, after) so that the middle frame can be filled in.  The triplets here are simulated: soft
discs (blastomeres) that drift, grow and pinch apart inside the zona pellucida, with camera noise.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    SIZE, BATCH, WIDTH, TAPS, STEPS, MOVIES = 160, 16, 48, 17, 220, 512
else:
    SIZE, BATCH, WIDTH, TAPS, STEPS, MOVIES = 32, 2, 8, 5, 16, 16


def render(centres, radii, brightness, size):
    """centres (N, C, 2), radii (N, C) in units of the frame -> (N, 1, size, size)"""
    axis = torch.linspace(-1, 1, size, device=centres.device)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    d = torch.sqrt((yy - centres[..., 0, None, None]) ** 2 + (xx - centres[..., 1, None, None]) ** 2)
    edge = (d - radii[..., None, None]) * 30
    disc = torch.sigmoid(-edge) * brightness[..., None, None]
    rim = torch.exp(-(edge**2)) * 0.35
    zona = torch.exp(-((((yy**2 + xx**2).sqrt() - 0.92) * 40) ** 2)) * 0.5
    return (disc + rim).amax(1, keepdim=True) * 0.7 + zona


def make_triplets(n, size):
    cells = 6
    centre = torch.randn(n, cells, 2, device=device) * 0.35
    speed = torch.randn(n, cells, 2, device=device) * 0.05
    radius = 0.14 + 0.12 * torch.rand(n, cells, device=device)
    growth = 0.02 * torch.randn(n, cells, device=device)
    bright = 0.4 + 0.6 * torch.rand(n, cells, device=device)
    frames = []
    for t in (-1.0, 0.0, 1.0):
        frames.append(render(centre + t * speed, radius * (1 + t * growth), bright, size))
    frames = torch.cat(frames, 1)
    return frames + 0.02 * torch.randn_like(frames)


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.ReLU()
    )


class KernelHead(nn.Module):
    def __init__(self, width, taps):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, taps, 3, padding=1)
        )
        self.last = nn.Conv2d(taps, taps, 3, padding=1)

    def forward(self, x):
        x = F.interpolate(self.body(x), scale_factor=2, mode="bilinear", align_corners=True)
        return self.last(x)


def sepconv(frame, vertical, horizontal, taps):
    b, c, h, w = frame.shape
    padded = F.pad(frame, [taps // 2] * 4, mode="replicate")
    patches = F.unfold(padded, taps).view(b, c, taps, taps, h, w)
    weights = vertical[:, None, :, None] * horizontal[:, None, None, :]
    return (patches * weights).sum((2, 3))


class SepConvNet(nn.Module):
    def __init__(self, width=48, taps=17):
        super().__init__()
        self.taps = taps
        widths = [width, width * 2, width * 4, width * 4]
        self.down = nn.ModuleList(block(a, b) for a, b in zip([2] + widths[:-1], widths))
        self.up = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths[::-1][:-1], widths[::-1][1:])
        )
        self.mix = nn.ModuleList(block(b, b) for b in widths[::-1][1:])
        self.heads = nn.ModuleList(KernelHead(width, taps) for _ in range(4))

    def forward(self, before, after):
        x = torch.cat([before, after], 1)
        x = x - x.mean(dim=(2, 3), keepdim=True)
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        skips.pop()
        for up, mix in zip(self.up, self.mix):
            skip = skips.pop()
            x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=True)
            x = mix(F.relu(up(x)) + skip)
        x = F.avg_pool2d(x, 2)
        v1, h1, v2, h2 = [head(x) for head in self.heads]
        return sepconv(before, v1, h1, self.taps) + sepconv(after, v2, h2, self.taps)


def charbonnier(a, b):
    return torch.sqrt((a - b) ** 2 + 1e-6).mean()


def gradient_difference(a, b):
    dx = (a[..., :, 1:] - a[..., :, :-1]).abs() - (b[..., :, 1:] - b[..., :, :-1]).abs()
    dy = (a[..., 1:, :] - a[..., :-1, :]).abs() - (b[..., 1:, :] - b[..., :-1, :]).abs()
    return dx.abs().mean() + dy.abs().mean()


def augment(t):
    if torch.rand(()) < 0.5:
        t = t.flip(1)  # play it backwards
    if torch.rand(()) < 0.5:
        t = t.flip(-1)
    if torch.rand(()) < 0.5:
        t = t.flip(-2)
    return t


def main():
    data = make_triplets(MOVIES, SIZE)
    held_out = make_triplets(BATCH, SIZE)
    net = SepConvNet(WIDTH, TAPS).to(device)
    model = torch.compile(net)
    optimizer = torch.optim.Adamax(net.parameters(), lr=1e-3)
    history = []
    for step in range(STEPS):
        batch = augment(data[torch.randint(MOVIES, (BATCH,), device=device)])
        with torch.autocast(device, dtype=torch.bfloat16):
            middle = model(batch[:, 0:1], batch[:, 2:3])
            loss = charbonnier(middle, batch[:, 1:2]) + 0.5 * gradient_difference(middle, batch[:, 1:2])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        history.append(loss.item())
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        middle = net(held_out[:, 0:1], held_out[:, 2:3]).float()
    mse = F.mse_loss(middle, held_out[:, 1:2]).item()
    blend = F.mse_loss((held_out[:, 0:1] + held_out[:, 2:3]) / 2, held_out[:, 1:2]).item()
    print(f"loss {sum(history[:10]) / 10:.4f} -> {sum(history[-10:]) / 10:.4f}")
    print(f"held-out PSNR {-10 * math.log10(mse):.2f} dB, plain blend {-10 * math.log10(blend):.2f} dB")


if __name__ == "__main__":
    main()
