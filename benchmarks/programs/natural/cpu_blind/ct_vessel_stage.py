"""Runs the first stage of a nnU-Net for vessels over CT patches: 3-d convolutions with instance norms."""

import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv3d(cin, cout, 3, stride=stride, padding=1)
        self.norm1 = nn.InstanceNorm3d(cout, affine=True)
        self.conv2 = nn.Conv3d(cout, cout, 3, padding=1)
        self.norm2 = nn.InstanceNorm3d(cout, affine=True)
        self.act = nn.LeakyReLU(0.01)

    def forward(self, x):
        x = self.act(self.norm1(self.conv1(x)))
        return self.act(self.norm2(self.conv2(x)))


class VesselNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine = Stage(1, 8)
        self.coarse = Stage(8, 16, stride=2)
        self.up = nn.ConvTranspose3d(16, 8, 2, stride=2)
        self.head = nn.Conv3d(16, 2, 1)

    def forward(self, x):
        a = self.fine(x)
        b = self.up(self.coarse(a))
        return self.head(torch.cat([a, b], dim=1)).softmax(dim=1)[:, 1]


torch.manual_seed(0)
net = torch.compile(VesselNet().eval())
patches = torch.randn(1, 1, 32, 96, 96)
volume = 0.0
with torch.no_grad():
    for _ in range(25):
        volume += (net(patches) > 0.5).float().sum().item()
print("voxels in vessels", volume / 25)
