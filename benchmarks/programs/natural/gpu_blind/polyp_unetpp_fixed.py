"""UNet++ with deep supervision for polyp segmentation in colonoscopy frames: training with bf16 autocast and a
validation pass (Dice) after each epoch."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
SIZE, BATCH = (32, 2) if SMOKE else (352, 16)
WIDTHS = (4, 8, 12, 16, 16) if SMOKE else (32, 64, 128, 256, 512)
EPOCHS, STEPS, VAL = (1, 2, 1) if SMOKE else (5, 24, 8)


def frames(n, gen):
    """Pinkish mucosa with folds and specular spots; a polyp is a brighter, smoother ellipse."""
    yy, xx = torch.meshgrid(*[torch.linspace(-1, 1, SIZE, device=DEV)] * 2, indexing="ij")
    r = lambda *s: torch.rand(*s, 1, 1, device=DEV, generator=gen)
    cx, cy, a, b, th = 1.2 * r(n) - 0.6, 1.2 * r(n) - 0.6, 0.15 + 0.3 * r(n), 0.15 + 0.3 * r(n), 3.14 * r(n)
    u = (xx - cx) * th.cos() + (yy - cy) * th.sin()
    v = (yy - cy) * th.cos() - (xx - cx) * th.sin()
    d = (u / a) ** 2 + (v / b) ** 2
    mask = (d < 1).float()
    folds = torch.sin(9 * r(n) * xx + 9 * r(n) * yy + 6.28 * r(n))
    base = torch.tensor([0.75, 0.42, 0.38], device=DEV)[:, None, None]
    img = base * (0.8 + 0.15 * folds[:, None]) * (1 + 0.25 * torch.exp(-d)[:, None] * mask[:, None])
    img = img + 0.05 * torch.randn(n, 3, SIZE, SIZE, device=DEV, generator=gen)
    spots = F.avg_pool2d((torch.rand(n, 1, SIZE, SIZE, device=DEV, generator=gen) > 0.997).float(), 3, 1, 1)
    img = (img + 3 * spots).clamp(0, 1)
    return img.contiguous(memory_format=torch.channels_last), mask[:, None]


class ConvBlock(nn.Module):
    """Two 3x3 convolutions with a channel gate."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.c1 = nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(n_out)
        self.c2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(n_out)
        self.gate = nn.Conv2d(n_out, n_out, 1)
        self.skip = nn.Conv2d(n_in, n_out, 1, bias=False)

    def forward(self, x):
        y = F.silu(self.b1(self.c1(x)))
        y = self.b2(self.c2(y))
        y = y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
        return F.silu(y + self.skip(x))


class UNetPP(nn.Module):
    def __init__(self):
        super().__init__()
        self.depth = len(WIDTHS)
        w = WIDTHS
        self.nodes = nn.ModuleDict()
        for i in range(self.depth):
            self.nodes[f"x{i}_0"] = ConvBlock(3 if i == 0 else w[i - 1], w[i])
        for j in range(1, self.depth):
            for i in range(self.depth - j):
                self.nodes[f"x{i}_{j}"] = ConvBlock(j * w[i] + w[i + 1], w[i])
        self.heads = nn.ModuleList(nn.Conv2d(w[0], 1, 1) for _ in range(1, self.depth))

    def forward(self, img):
        x = {(0, 0): self.nodes["x0_0"](img)}
        for i in range(1, self.depth):
            x[i, 0] = self.nodes[f"x{i}_0"](F.max_pool2d(x[i - 1, 0], 2))
        for j in range(1, self.depth):
            for i in range(self.depth - j):
                up = F.interpolate(x[i + 1, j - 1], scale_factor=2, mode="nearest")
                x[i, j] = self.nodes[f"x{i}_{j}"](torch.cat([x[i, k] for k in range(j)] + [up], 1))
        return [head(x[0, j + 1]) for j, head in enumerate(self.heads)]


def seg_loss(logits, mask):
    total = 0
    for out in logits:
        out = out.float()
        p = out.sigmoid()
        inter = (p * mask).sum((1, 2, 3))
        dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
        total = total + 0.5 * F.binary_cross_entropy_with_logits(out, mask) + dice.mean()
    return total / len(logits)


@torch.no_grad()
def validate(model, gen):
    model.eval()
    scores = []
    for _ in range(VAL):
        img, mask = frames(BATCH, gen)
        with torch.autocast(DEV, dtype=torch.bfloat16):
            pred = model(img)[-1] > 0
        inter = (pred * mask).sum((1, 2, 3))
        scores.append((2 * inter + 1) / (pred.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1))
    model.train()
    return torch.cat(scores).mean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator(device=DEV).manual_seed(4)
    model = UNetPP().to(DEV).to(memory_format=torch.channels_last)
    model.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * STEPS)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, {len(model.nodes)} nodes")
    for epoch in range(EPOCHS):
        start, running = time.perf_counter(), torch.zeros((), device=DEV)
        for _ in range(STEPS):
            img, mask = frames(BATCH, gen)
            with torch.autocast(DEV, dtype=torch.bfloat16):
                logits = model(img)
            loss = seg_loss(logits, mask)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.detach()
        mean = running.item() / STEPS
        spent = time.perf_counter() - start
        print(
            f"epoch {epoch}  loss {mean:.4f}  val Dice {validate(model, gen):.4f}"
            f"  {STEPS * BATCH / spent:.0f} img/s  lr {sched.get_last_lr()[0]:.2e}"
        )


if __name__ == "__main__":
    main()
