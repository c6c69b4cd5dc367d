"""Fit cubic Bezier strokes to a target drawing with a soft rasteriser."""

import os
import time

import numpy as np
import torch

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SIZE = max(24, int(224 * SCALE**0.5))
STROKES = max(6, int(64 * SCALE))
SAMPLES = 24
STEPS = 40


def target_image(size):
    """Three rings and a diagonal hatch, as an anti-aliased ink drawing."""
    lin = np.linspace(-1.0, 1.0, size)
    x, y = np.meshgrid(lin, lin)
    ink = np.zeros_like(x)
    for cx, cy, r in [(-0.3, -0.2, 0.4), (0.35, 0.1, 0.3), (0.0, 0.4, 0.25)]:
        d = np.abs(np.hypot(x - cx, y - cy) - r)
        ink = np.maximum(ink, np.exp(-((d / 0.03) ** 2)))
    hatch = np.abs(((x + y) * 4) % 1.0 - 0.5)
    ink = np.maximum(ink, 0.5 * np.exp(-((hatch / 0.1) ** 2)) * (np.hypot(x, y) > 0.8))
    return 1.0 - ink


def pixel_centres(size):
    lin = np.linspace(-1.0, 1.0, size)
    return np.stack(np.meshgrid(lin, lin), axis=-1).reshape(-1, 2)


def bernstein(n):
    t = np.linspace(0.0, 1.0, n)
    return np.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], axis=-1)


class StrokeCanvas(torch.nn.Module):
    def __init__(self, size, strokes, samples):
        super().__init__()
        rng = np.random.default_rng(4)
        start = rng.uniform(-0.8, 0.8, (strokes, 1, 2))
        ctrl = start + rng.normal(0, 0.15, (strokes, 4, 2))
        self.ctrl = torch.nn.Parameter(torch.from_numpy(ctrl))
        self.log_width = torch.nn.Parameter(torch.full((strokes,), -3.2))
        self.ink = torch.nn.Parameter(torch.zeros(strokes))
        self.register_buffer("basis", torch.from_numpy(bernstein(samples)))
        self.register_buffer("pix", torch.from_numpy(pixel_centres(size)))
        self.size = size

    def forward(self):
        pts = torch.einsum("ti,sid->std", self.basis, self.ctrl)
        dx = self.pix[:, None, None, 0] - pts[None, :, :, 0]
        dy = self.pix[:, None, None, 1] - pts[None, :, :, 1]
        d2 = dx * dx + dy * dy
        soft = -torch.logsumexp(-200.0 * d2, dim=-1) / 200.0
        width = torch.exp(self.log_width)
        cover = torch.sigmoid((width.square() - soft) / (0.4 * width.square()))
        alpha = cover * torch.sigmoid(self.ink)
        through = torch.log1p(-alpha.clamp(max=0.999)).sum(dim=1)
        return torch.exp(through).view(self.size, self.size)


def main():
    torch.manual_seed(0)
    target = torch.from_numpy(target_image(SIZE)).to(DEVICE)
    canvas = StrokeCanvas(SIZE, STROKES, SAMPLES).to(DEVICE)
    opt = torch.optim.Adam(canvas.parameters(), lr=1e-2)

    @torch.compile
    def objective():
        img = canvas()
        data = (img - target).square().mean()
        seg = canvas.ctrl[:, 1:] - canvas.ctrl[:, :-1]
        return data + 1e-3 * seg.square().sum(-1).mean()

    for step in range(STEPS):
        if step == 10:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        opt.zero_grad()
        loss = objective()
        loss.backward()
        opt.step()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (STEPS - 10) * 1e3
    print(f"canvas {SIZE}x{SIZE}, {STROKES} strokes: loss {loss.item():.6f}, {ms:.2f} ms/iter")


if __name__ == "__main__":
    main()
