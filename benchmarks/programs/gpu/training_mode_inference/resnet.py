"""Convolutions and batch norms predict in train mode with gradients on."""

import torch
from torch import nn


def block(channels):
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
    )


model = nn.Sequential(
    nn.Conv2d(3, 64, 7, 2, 3), *(block(64) for _ in range(6)), nn.AdaptiveAvgPool2d(1), nn.Flatten()
)
model = model.to("cuda", torch.float16)
predict = torch.compile(model)
images = torch.randn(64, 3, 224, 224, device="cuda", dtype=torch.float16)
for _ in range(60):
    scores = predict(images)
print(scores.shape)
