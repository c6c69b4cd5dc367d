"""Decoder half of a volumetric segmentation network on CT features, with skips and instance norm."""

import torch
import torch.nn as nn

dev = "cuda"
torch.manual_seed(0)
widths = [128, 64, 32, 16]
base = 12


class Stage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.up = nn.ConvTranspose3d(cin, cout, 2, stride=2)
        self.conv1 = nn.Conv3d(2 * cout, cout, 3, padding=1)
        self.norm1 = nn.InstanceNorm3d(cout, affine=True)
        self.conv2 = nn.Conv3d(cout, cout, 3, padding=1)
        self.norm2 = nn.InstanceNorm3d(cout, affine=True)
        self.act = nn.PReLU(cout)

    def forward(self, x, skip):
        x = torch.cat([self.up(x), skip], 1)
        x = self.act(self.norm1(self.conv1(x)))
        return self.act(x + self.norm2(self.conv2(x)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(Stage(a, b) for a, b in zip(widths, widths[1:]))
        self.head = nn.Conv3d(widths[-1], 4, 1)

    def forward(self, x, skips):
        for stage, skip in zip(self.stages, skips):
            x = stage(x, skip)
        return torch.softmax(self.head(x), 1)


deep = torch.randn(1, widths[0], base, base, base, device=dev)
skips = [torch.randn(1, w, *[base * 2 ** (i + 1)] * 3, device=dev) for i, w in enumerate(widths[1:])]
net = torch.compile(Decoder().to(dev).eval())
with torch.no_grad():
    for _ in range(40):
        y = net(deep, skips)
print(y[:, 0].mean().item())
