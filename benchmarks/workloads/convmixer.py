"""A ConvMixer in bfloat16 under autocast: inference, or training with --train."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


class Mixer(nn.Module):
    def __init__(self, dim=128, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 7, 7)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "dw": nn.Conv2d(dim, dim, 9, groups=dim, padding=4),
                    "n1": nn.BatchNorm2d(dim),
                    "pw": nn.Conv2d(dim, dim, 1),
                    "n2": nn.BatchNorm2d(dim),
                }
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(dim, 100)

    def forward(self, x):
        x = F.gelu(self.stem(x))
        for block in self.blocks:
            x = x + block["n1"](F.gelu(block["dw"](x)))
            x = block["n2"](F.gelu(block["pw"](x)))
        return self.head(x.mean((-1, -2)))


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    train = "--train" in sys.argv or "train" in sys.argv[0]
    model = Mixer().cuda().train(train)
    images = torch.randn(32, 3, 224, 224, device="cuda")
    compiled = torch.compile(model)
    for _ in range(40):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            if train:
                compiled(images).float().logsumexp(-1).mean().backward()
                model.zero_grad(set_to_none=True)
            else:
                with torch.no_grad():
                    compiled(images)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
