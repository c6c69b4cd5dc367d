"""ResNet-50, inference: half precision and batch 16 on a GPU; a few narrow blocks without one."""

import torch
from torch import nn

CUDA = torch.cuda.is_available()
BLOCKS, WIDTH, BATCH, SIDE = ((3, 4, 6, 3), 64, 16, 224) if CUDA else ((1, 1, 1, 1), 8, 2, 32)
CALLS = 50 if CUDA else 5


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        outside = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet():
    layers = [
        nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = WIDTH
    for stage, blocks in enumerate(BLOCKS):
        width = WIDTH << stage
        for block in range(blocks):
            layers.append(Bottleneck(inside, width, 2 if stage and not block else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


torch.manual_seed(0)
device, dtype = ("cuda", torch.half) if CUDA else ("cpu", torch.float32)
model = resnet().eval().to(device, dtype=dtype, memory_format=torch.channels_last)
compiled = torch.compile(model)
x = torch.randn(BATCH, 3, SIDE, SIDE, device=device, dtype=dtype).to(memory_format=torch.channels_last)
with torch.no_grad():
    for _ in range(CALLS):
        compiled(x)
