"""Gated PixelCNN over 4-level woven-fabric swatches; samples are drawn between epochs
to follow how the weave pattern is picked up."""

import argparse
import logging
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("weave")
SIZE, LEVELS = 16, 4


def weave(n, gen):
    """Twill / plain / basket weaves with random phase and thread wear."""
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    kind = torch.randint(0, 3, (n, 1, 1), generator=gen)
    px = torch.randint(0, 4, (n, 1, 1), generator=gen)
    py = torch.randint(0, 4, (n, 1, 1), generator=gen)
    xs, ys = x[None] + px, y[None] + py
    twill = ((xs + ys) % 4 < 2).long()
    plain = (xs + ys) % 2
    basket = (xs // 2 + ys // 2) % 2
    over = torch.where(kind == 0, twill, torch.where(kind == 1, plain, basket))
    tone = 2 * over + (torch.rand(n, SIZE, SIZE, generator=gen) < 0.15).long()
    return tone.clamp(0, LEVELS - 1)


class MaskedConv2d(nn.Conv2d):
    def __init__(self, kind, cin, cout, k):
        super().__init__(cin, cout, k, padding=k // 2)
        mask = torch.ones(k, k)
        mask[k // 2, k // 2 + (kind == "B") :] = 0
        mask[k // 2 + 1 :] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)


class GatedBlock(nn.Module):
    """Normalises per pixel over channels, so that no position sees later ones."""

    def __init__(self, ch, k=3, drop=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(ch)
        self.conv = MaskedConv2d("B", ch, 2 * ch, k)
        self.out = nn.Conv2d(ch, ch, 1)
        self.drop = nn.Dropout2d(drop)

    def forward(self, x):
        h = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        a, b = self.conv(h).chunk(2, 1)
        return x + self.drop(self.out(torch.tanh(a) * torch.sigmoid(b)))


class PixelCNN(nn.Module):
    def __init__(self, ch=32, depth=4):
        super().__init__()
        self.emb = nn.Embedding(LEVELS, 8)
        self.inp = MaskedConv2d("A", 8, ch, 7)
        self.blocks = nn.ModuleList(GatedBlock(ch) for _ in range(depth))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv2d(ch, 64, 1), nn.ReLU(), nn.Conv2d(64, LEVELS, 1))

    def forward(self, img):
        h = self.inp(self.emb(img).permute(0, 3, 1, 2))
        for b in self.blocks:
            h = b(h)
        return self.head(h)


@torch.no_grad()
def sample(model, n, gen):
    model.eval()
    img = torch.zeros(n, SIZE, SIZE, dtype=torch.long)
    for r in range(SIZE):
        for c in range(SIZE):
            p = model(img)[:, :, r, c].softmax(-1)
            img[:, r, c] = torch.multinomial(p, 1, generator=gen)[:, 0]
    model.train()
    return img


@torch.no_grad()
def bits_per_pixel(model, imgs, bs=128):
    model.eval()
    tot = 0.0
    for b in imgs.split(bs):
        tot += F.cross_entropy(model(b), b, reduction="sum").item()
    model.train()
    return tot / imgs.numel() / math.log(2)


def show(img):
    ramp = " .+#"
    return "\n".join("   " + "".join(ramp[v] for v in row) for row in img[:6].tolist())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--steps", type=int, default=22)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--samples", type=int, default=8)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    train, val = weave(args.steps * args.batch, gen), weave(300, gen)
    net = PixelCNN()
    model = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-4)
    log.info("%d parameters", sum(p.numel() for p in net.parameters()))
    t_all = time.time()
    for ep in range(args.epochs):
        t0, run = time.time(), 0.0
        for b in train[torch.randperm(len(train), generator=gen)].split(args.batch):
            loss = F.cross_entropy(model(b), b)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            run += loss.item()
        t1 = time.time()
        bpp = bits_per_pixel(model, val)
        t2 = time.time()
        imgs = sample(model, args.samples, gen)
        t3 = time.time()
        log.info(
            "epoch %d  train %.3f b/px  val %.3f b/px | train %.2fs eval %.2fs sample %.2fs (%.1f img/s)",
            ep,
            run / args.steps / math.log(2),
            bpp,
            t1 - t0,
            t2 - t1,
            t3 - t2,
            args.samples / (t3 - t2),
        )
        log.info("sample:\n%s", show(imgs[0]))
    log.info("total %.2f s", time.time() - t_all)


if __name__ == "__main__":
    main()
