import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 1)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).contiguous()
        x = x.permute(0, 3, 1, 2).contiguous()
        x = x.transpose(2, 3).contiguous()
        return x


model = torch.compile(Mixer().eval())
x = torch.randn(8, 64, 128, 128)
with torch.no_grad():
    for _ in range(15):
        model(x)
