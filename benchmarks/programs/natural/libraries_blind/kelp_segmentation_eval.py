"""Validation pass of a kelp-forest segmentation network on satellite tiles."""

import time

import torch
import torch.nn.functional as F
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassCohenKappa,
    MulticlassF1Score,
    MulticlassJaccardIndex,
    MulticlassPrecision,
    MulticlassRecall,
)

torch.manual_seed(12)

CLASSES = 5
SIZE = 256
BATCH = 4
N_BATCHES = 16


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )


class FastSeg(nn.Module):
    """Quarter-resolution encoder, light head; ten spectral bands in."""

    def __init__(self, bands=10, width=24):
        super().__init__()
        self.stem = ConvBlock(bands, width, stride=2)
        self.down = ConvBlock(width, 2 * width, stride=2)
        self.body = nn.Sequential(*[ConvBlock(2 * width, 2 * width) for _ in range(3)])
        self.head = nn.Conv2d(2 * width, CLASSES, 1)

    def forward(self, x):
        y = self.head(self.body(self.down(self.stem(x))))
        return F.interpolate(y, scale_factor=4, mode="bilinear", align_corners=False)


def make_tiles(n, generator):
    tiles = []
    for _ in range(n):
        coarse = torch.randn(BATCH, CLASSES, 16, 16, generator=generator)
        smooth = F.interpolate(coarse, size=(SIZE, SIZE), mode="bicubic", align_corners=False)
        target = smooth.argmax(1)
        bands = torch.randn(BATCH, 10, SIZE, SIZE, generator=generator) * 0.5
        bands[:, :CLASSES] += F.one_hot(target, CLASSES).permute(0, 3, 1, 2)
        tiles.append((bands, target))
    return tiles


def build_metrics():
    return MetricCollection(
        {
            "acc": MulticlassAccuracy(num_classes=CLASSES, average="macro"),
            "f1": MulticlassF1Score(num_classes=CLASSES, average="macro"),
            "prec": MulticlassPrecision(num_classes=CLASSES, average="macro"),
            "rec": MulticlassRecall(num_classes=CLASSES, average="macro"),
            "iou": MulticlassJaccardIndex(num_classes=CLASSES),
            "kappa": MulticlassCohenKappa(num_classes=CLASSES),
        }
    )


model = FastSeg().eval()
metrics = build_metrics()


@torch.compile
def eval_step(bands, target):
    logits = model(bands)
    loss = F.cross_entropy(logits, target)
    batch = metrics(logits.argmax(1), target)
    return loss, batch["iou"]


def main():
    gen = torch.Generator().manual_seed(4)
    tiles = make_tiles(N_BATCHES, gen)

    losses, times, worst = [], [], 1.0
    with torch.no_grad():
        for epoch in range(2):
            metrics.reset()
            for bands, target in tiles:
                t0 = time.perf_counter()
                loss, iou = eval_step(bands, target)
                worst = min(worst, float(iou))
                losses.append(float(loss))
                times.append(time.perf_counter() - t0)
            result = {k: round(v.item(), 4) for k, v in metrics.compute().items()}
            print(f"pass {epoch}: loss {sum(losses) / len(losses):.4f}  {result}")

    steady = sorted(times[10:])
    print(f"worst batch iou {worst:.4f}")
    print(f"median batch {1e3 * steady[len(steady) // 2]:.1f} ms")


if __name__ == "__main__":
    main()
