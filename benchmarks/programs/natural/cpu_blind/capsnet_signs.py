"""Capsule network (Sabour et al. 2017) for small traffic signs, dynamic routing,
margin loss and reconstruction regulariser."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)

CLASSES, BATCH, STEPS = 12, 32, 80


def draw_signs(n):
    """Discs, triangles, bars... of several sizes, one class per (shape, stripe)."""
    y = torch.randint(0, CLASSES, (n,))
    g = torch.linspace(-1, 1, 28)
    yy, xx = torch.meshgrid(g, g, indexing="ij")
    c = torch.rand(n, 2, 1, 1) * 0.4 - 0.2
    r = 0.5 + 0.3 * torch.rand(n, 1, 1)
    dx, dy = xx - c[:, 0], yy - c[:, 1]
    shapes = torch.stack(
        [
            (dx**2 + dy**2 < r**2),
            (dx.abs() + dy.abs() < r),
            (dx.abs().maximum(dy.abs()) < 0.8 * r),
            ((dy < 0.6 * r) & (dy > 2 * dx.abs() - r)),
        ],
        1,
    ).float()
    pic = shapes[torch.arange(n), y % 4]
    stripe = torch.stack([torch.zeros_like(dx), (dx.abs() < 0.12).float(), (dy.abs() < 0.12).float()], 1)
    pic = pic * (1 - 0.8 * stripe[torch.arange(n), y // 4])
    return (pic + 0.15 * torch.randn_like(pic)).clamp(0, 1).unsqueeze(1), y


def squash(s, dim=-1):
    sq = (s * s).sum(dim, keepdim=True)
    return sq / (1 + sq) * s / torch.sqrt(sq + 1e-8)


class DigitCaps(nn.Module):
    def __init__(self, n_in, d_in, n_out, d_out, iters=3):
        super().__init__()
        self.W = nn.Parameter(torch.randn(n_in, n_out, d_out, d_in) * 0.05)
        self.iters = iters

    def forward(self, u):  # (B, I, d_in)
        u_hat = torch.einsum("iokd,bid->biok", self.W, u)  # (B, I, O, d_out)
        u_ng = u_hat.detach()
        b = u.new_zeros(u.size(0), u.size(1), self.W.size(1))
        for i in range(self.iters):
            c = torch.softmax(b, dim=2).unsqueeze(-1)
            if i == self.iters - 1:
                return squash((c * u_hat).sum(1))
            v = squash((c * u_ng).sum(1))
            b = b + (u_ng * v.unsqueeze(1)).sum(-1)


class CapsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 64, 9)
        self.prim = nn.Conv2d(64, 32 * 8, 9, stride=2)
        self.caps = DigitCaps(32 * 36, 8, CLASSES, 16)
        self.decoder = nn.Sequential(
            nn.Linear(16 * CLASSES, 256),
            nn.ReLU(),
            nn.Linear(256, 512),
            nn.ReLU(),
            nn.Linear(512, 784),
            nn.Sigmoid(),
        )

    def forward(self, x, y=None):
        h = F.relu(self.conv(x))
        p = self.prim(h).view(x.size(0), 32, 8, 36).transpose(2, 3).reshape(x.size(0), -1, 8)
        v = self.caps(squash(p))
        length = v.norm(dim=-1)
        target = length.argmax(1) if y is None else y
        mask = F.one_hot(target, CLASSES).to(v.dtype)
        recon = self.decoder((v * mask.unsqueeze(-1)).flatten(1))
        return length, recon


def margin_loss(length, y):
    t = F.one_hot(y, CLASSES).float()
    pos = F.relu(0.9 - length) ** 2
    neg = F.relu(length - 0.1) ** 2
    return (t * pos + 0.5 * (1 - t) * neg).sum(1).mean()


def main():
    model = CapsNet()
    model.compile()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    xs, ys = draw_signs(6000)
    for step in range(STEPS):
        pick = torch.randint(0, len(xs), (BATCH,))
        x, y = xs[pick], ys[pick]
        length, recon = model(x, y)
        loss = margin_loss(length, y) + 0.0005 * F.mse_loss(recon, x.flatten(1), reduction="sum") / BATCH
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            acc = (length.argmax(1) == y).float().mean()
            print(f"step {step:3d} loss {loss.item():.4f} acc {acc.item():.2f}")

    model.eval()
    xt, yt = draw_signs(512)
    with torch.no_grad():
        ok = sum(
            (model(xb)[0].argmax(1) == yb).sum().item() for xb, yb in zip(xt.split(BATCH), yt.split(BATCH))
        )
    print(f"test accuracy {ok / len(xt):.3f}")


if __name__ == "__main__":
    main()
