"""Vertebral heart score landmarks on lateral thoracic radiographs of dogs.

An octave-convolution network (high- and low-frequency feature maps exchanging information) predicts six landmarks
through a differentiable spatial-to-numerical transform; the score is long axis + short axis in vertebra lengths.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
SIZE = 96
N_PTS = 6  # carina, apex, cranial edge, caudal edge, T4 front, T5 back


def radiographs(n):
    ax = torch.linspace(-1, 1, SIZE)
    gy, gx = torch.meshgrid(ax, ax, indexing="ij")
    cx = 0.15 * torch.randn(n)
    cy = 0.1 + 0.1 * torch.randn(n)
    long_ax = 0.42 + 0.06 * torch.randn(n)
    short_ax = 0.30 + 0.05 * torch.randn(n)
    ang = 0.9 + 0.15 * torch.randn(n)
    ca, sa = torch.cos(ang), torch.sin(ang)
    dx = gx[None] - cx[:, None, None]
    dy = gy[None] - cy[:, None, None]
    p = dx * ca[:, None, None] + dy * sa[:, None, None]
    q = -dx * sa[:, None, None] + dy * ca[:, None, None]
    heart = torch.sigmoid(12 * (1 - (p / long_ax[:, None, None]) ** 2 - (q / short_ax[:, None, None]) ** 2))
    vert = 0.16 + 0.015 * torch.randn(n)
    spine_y = -0.62 + 0.04 * torch.randn(n)
    spine = torch.exp(-(((gy[None] - spine_y[:, None, None]) / 0.09) ** 2))
    spine = spine * (0.6 + 0.4 * torch.cos(2 * math.pi * gx[None] / vert[:, None, None]))
    ribs = 0.15 * torch.sin(14 * (gx + 0.4 * gy))[None]
    img = heart + 0.8 * spine + ribs + 0.15 * torch.randn(n, SIZE, SIZE)
    pts = torch.stack(
        [
            torch.stack([cx - long_ax * ca, cy - long_ax * sa], -1),
            torch.stack([cx + long_ax * ca, cy + long_ax * sa], -1),
            torch.stack([cx + short_ax * sa, cy - short_ax * ca], -1),
            torch.stack([cx - short_ax * sa, cy + short_ax * ca], -1),
            torch.stack([torch.zeros(n), spine_y], -1),
            torch.stack([vert, spine_y], -1),
        ],
        dim=1,
    )
    return img[:, None], pts


class OctConv(nn.Module):
    """Octave convolution: alpha of the channels live at half resolution."""

    def __init__(self, c_in, c_out, alpha_in=0.5, alpha_out=0.5, stride=1):
        super().__init__()
        li, lo = int(alpha_in * c_in), int(alpha_out * c_out)
        hi, ho = c_in - li, c_out - lo
        self.stride = stride
        self.h2h = nn.Conv2d(hi, ho, 3, padding=1, bias=False)
        self.h2l = nn.Conv2d(hi, lo, 3, padding=1, bias=False) if lo else None
        self.l2h = nn.Conv2d(li, ho, 3, padding=1, bias=False) if li else None
        self.l2l = nn.Conv2d(li, lo, 3, padding=1, bias=False) if li and lo else None
        self.bn_h = nn.BatchNorm2d(ho)
        self.bn_l = nn.BatchNorm2d(lo) if lo else None

    def forward(self, x):
        h, l = x if isinstance(x, tuple) else (x, None)
        if self.stride == 2:
            h = F.avg_pool2d(h, 2)
            l = F.avg_pool2d(l, 2) if l is not None else None
        out_h = self.h2h(h)
        if l is not None and self.l2h is not None:
            out_h = out_h + F.interpolate(self.l2h(l), scale_factor=2, mode="nearest")
        out_h = F.relu(self.bn_h(out_h))
        if self.h2l is None:
            return out_h
        out_l = self.h2l(F.avg_pool2d(h, 2))
        if l is not None:
            out_l = out_l + self.l2l(l)
        return out_h, F.relu(self.bn_l(out_l))


class HeartNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = OctConv(1, width, alpha_in=0.0)
        self.body = nn.Sequential(
            OctConv(width, width),
            OctConv(width, 2 * width, stride=2),
            OctConv(2 * width, 2 * width),
            OctConv(2 * width, 2 * width),
        )
        self.merge = OctConv(2 * width, width, alpha_out=0.0)
        self.heat = nn.Conv2d(width, N_PTS, 1)
        ax = (torch.arange(SIZE // 2) * 2 + 1) / (SIZE // 2) - 1
        self.register_buffer("axis", ax)

    def forward(self, img):
        z = self.heat(self.merge(self.body(self.stem(img))))
        b, k, hh, ww = z.shape
        prob = F.softmax(z.view(b, k, -1), dim=-1).view(b, k, hh, ww)
        x = (prob.sum(2) * self.axis).sum(-1)
        y = (prob.sum(3) * self.axis).sum(-1)
        return torch.stack([x, y], -1), prob


def js_regulariser(prob, target, axis, sigma=0.06):
    gx = torch.exp(-((axis - target[..., 0:1]) ** 2) / (2 * sigma**2))
    gy = torch.exp(-((axis - target[..., 1:2]) ** 2) / (2 * sigma**2))
    g = gy[..., :, None] * gx[..., None, :]
    g = g / (g.sum((-1, -2), keepdim=True) + 1e-12)
    m = 0.5 * (prob + g)
    kl = lambda a: (a * ((a + 1e-12).log() - (m + 1e-12).log())).sum((-1, -2))
    return 0.5 * (kl(prob) + kl(g)).mean()


def heart_score(pts):
    d = lambda a, b: (pts[:, a] - pts[:, b]).norm(dim=-1)
    return (d(0, 1) + d(2, 3)) / d(4, 5)


def main():
    train_x, train_y = radiographs(256)
    test_x, test_y = radiographs(48)
    net = HeartNet()
    step_net = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=96)
    history = []
    for it in range(96):
        idx = torch.randint(0, len(train_x), (8,))
        x, y = train_x[idx], train_y[idx]
        pts, prob = step_net(x)
        loss = (pts - y).norm(dim=-1).mean() + js_regulariser(prob, y, net.axis)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        history.append(loss.item())
    net.eval()
    with torch.no_grad():
        pts = torch.cat([net(c)[0] for c in test_x.split(16)])
    err = (pts - test_y).norm(dim=-1) * SIZE / 2
    print(f"loss {sum(history[:8]) / 8:.3f} -> {sum(history[-8:]) / 8:.3f}")
    print(f"landmark error {err.mean():.2f} px (per point {[round(v, 1) for v in err.mean(0).tolist()]})")
    print(f"VHS true {heart_score(test_y).mean():.2f} predicted {heart_score(pts).median():.2f}")


if __name__ == "__main__":
    main()
