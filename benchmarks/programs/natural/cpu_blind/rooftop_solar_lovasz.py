"""Segmentation of roof parts and solar panels from aerial crops, trained with the Lovasz loss.

The classes are very unbalanced (skylights and panels are a few per cent), so the network is
trained on the Jaccard index itself by its Lovasz extension, mixed with cross entropy.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = ["ground", "tile roof", "flat roof", "panel", "skylight", "chimney"]
SIZE = 160
BATCH = 4
STEPS = 48


class RoofCrops:
    """Synthetic crops: houses as rectangles with a ridge, panel rows, skylights, chimneys."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.palette = torch.tensor(
            [
                [0.35, 0.45, 0.30],
                [0.60, 0.32, 0.25],
                [0.55, 0.55, 0.55],
                [0.12, 0.15, 0.30],
                [0.75, 0.80, 0.85],
                [0.40, 0.25, 0.22],
            ]
        )

    def _int(self, lo, hi):
        return int(torch.randint(lo, hi, (1,), generator=self.gen))

    def sample(self):
        lab = torch.zeros(SIZE, SIZE, dtype=torch.long)
        for _ in range(self._int(2, 5)):
            h, w = self._int(36, 72), self._int(36, 80)
            y, x = self._int(0, SIZE - h), self._int(0, SIZE - w)
            lab[y : y + h, x : x + w] = self._int(1, 3)
            if self._int(0, 3):
                ph, pw = self._int(8, 18), self._int(12, 30)
                py, px = y + self._int(2, h - ph), x + self._int(2, w - pw)
                lab[py : py + ph, px : px + pw] = 3
            for cls, s in ((4, 6), (5, 4)):
                if self._int(0, 2):
                    cy, cx = y + self._int(2, h - s), x + self._int(2, w - s)
                    lab[cy : cy + s, cx : cx + s] = cls
        img = self.palette[lab].permute(2, 0, 1)
        light = 0.85 + 0.3 * torch.rand(1, generator=self.gen)
        img = img * light + 0.06 * torch.randn(3, SIZE, SIZE, generator=self.gen)
        if self._int(0, 2):
            img, lab = img.flip(-1), lab.flip(-1)
        return img, lab

    def batches(self, n):
        for _ in range(n):
            pairs = [self.sample() for _ in range(BATCH)]
            yield torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])


def block(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.SiLU())


class RoofNet(nn.Module):
    """Light encoder-decoder, predicts at half resolution and upsamples the logits."""

    def __init__(self, classes=len(CLASSES)):
        super().__init__()
        self.stem = block(3, 16, 2)
        self.down1 = nn.Sequential(block(16, 32, 2), block(32, 32))
        self.down2 = nn.Sequential(block(32, 64, 2), block(64, 64))
        self.lat1 = nn.Conv2d(32, 32, 1)
        self.up2 = nn.Conv2d(64, 32, 1)
        self.fuse = block(32, 32)
        self.lat0 = nn.Conv2d(16, 32, 1)
        self.head = nn.Sequential(block(32, 24), nn.Conv2d(24, classes, 1))

    def forward(self, x):
        s = self.stem(x)
        a = self.down1(s)
        b = self.down2(a)
        y = F.interpolate(self.up2(b), scale_factor=2.0, mode="nearest") + self.lat1(a)
        y = F.interpolate(self.fuse(y), scale_factor=2.0, mode="nearest") + self.lat0(s)
        return F.interpolate(self.head(y), scale_factor=2.0, mode="bilinear", align_corners=False)


@torch.compile
def lovasz_softmax(logits, labels, ce_weight=0.5):
    """Lovasz-softmax over the pixels of the whole batch, mean over classes that are present."""
    c = logits.shape[1]
    logp = F.log_softmax(logits, dim=1)
    probs = logp.exp().permute(1, 0, 2, 3).reshape(c, -1)
    flat = labels.reshape(-1)
    fg = (flat[None] == torch.arange(c)[:, None]).to(probs.dtype)
    errors = (fg - probs).abs()
    errors_sorted, perm = torch.sort(errors, dim=1, descending=True)
    fg_sorted = torch.gather(fg, 1, perm)
    total = fg_sorted.sum(1, keepdim=True)
    inter = total - fg_sorted.cumsum(1)
    union = total + (1.0 - fg_sorted).cumsum(1)
    jaccard = 1.0 - inter / union
    grad = torch.cat([jaccard[:, :1], jaccard[:, 1:] - jaccard[:, :-1]], dim=1)
    per_class = (errors_sorted * grad.detach()).sum(1)
    present = (total[:, 0] > 0).to(probs.dtype)
    lovasz = (per_class * present).sum() / present.sum()
    ce = -logp.gather(1, labels[:, None]).mean()
    return lovasz + ce_weight * ce, lovasz.detach()


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    k = len(CLASSES)
    conf = torch.zeros(k, k)
    for x, y in batches:
        pred = model(x).argmax(1)
        conf += torch.bincount((y * k + pred).flatten(), minlength=k * k).view(k, k)
    model.train()
    inter = conf.diag()
    return inter / (conf.sum(0) + conf.sum(1) - inter).clamp(min=1)


def main():
    torch.manual_seed(3)
    model = RoofNet()
    model.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=STEPS)
    val = list(RoofCrops(99).batches(3))
    t0 = time.perf_counter()
    for step, (x, y) in enumerate(RoofCrops(1).batches(STEPS)):
        loss, lov = lovasz_softmax(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        sched.step()
        if (step + 1) % 12 == 0:
            iou = evaluate(model, val)
            ms = (time.perf_counter() - t0) / (step + 1) * 1e3
            print(
                f"step {step + 1:3d}  loss {loss.item():.3f}  lovasz {lov.item():.3f}  "
                f"mIoU {iou.mean().item():.3f}  panel {iou[3].item():.3f}  {ms:.0f} ms/step"
            )
    print("IoU:", ", ".join(f"{n} {v:.2f}" for n, v in zip(CLASSES, iou.tolist())))


if __name__ == "__main__":
    main()
