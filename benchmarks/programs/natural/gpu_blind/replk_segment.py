"""Large-kernel convolutional backbone stage in half precision, as used for land-cover segmentation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

dev = "cuda"
torch.manual_seed(0)
dim, side, batch = 128, 64, 4


class LargeKernel(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.pre = nn.Sequential(
            nn.BatchNorm2d(c), nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU()
        )
        self.large = nn.Conv2d(c, c, k, padding=k // 2, groups=c, bias=False)
        self.small = nn.Conv2d(c, c, 5, padding=2, groups=c, bias=False)
        self.bn = nn.BatchNorm2d(c)
        self.post = nn.Conv2d(c, c, 1, bias=False)
        self.ffn = nn.Sequential(nn.BatchNorm2d(c), nn.Conv2d(c, 4 * c, 1), nn.GELU(), nn.Conv2d(4 * c, c, 1))

    def forward(self, x):
        y = self.pre(x)
        y = F.relu(self.bn(self.large(y) + self.small(y)))
        x = x + self.post(y)
        return x + self.ffn(x)


model = (
    nn.Sequential(
        nn.Conv2d(4, dim, 4, stride=4),
        LargeKernel(dim, 31),
        LargeKernel(dim, 29),
        nn.Conv2d(dim, 9, 1),
    )
    .to(dev)
    .half()
    .eval()
)
tiles = torch.randn(batch, 4, side * 4, side * 4, device=dev).half()
fast = torch.compile(model)
with torch.no_grad():
    for _ in range(40):
        y = fast(tiles)
print(y.float().mean().item())
