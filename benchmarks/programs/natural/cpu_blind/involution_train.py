"""Trains a small classifier of leaf images built from involution layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Involution(nn.Module):
    def __init__(self, channels, kernel=5, groups=4):
        super().__init__()
        self.kernel, self.groups = kernel, groups
        self.reduce = nn.Sequential(nn.Conv2d(channels, channels // 4, 1), nn.ReLU())
        self.span = nn.Conv2d(channels // 4, kernel * kernel * groups, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        k = self.kernel
        weight = self.span(self.reduce(x)).view(b, self.groups, 1, k * k, h, w)
        patches = F.unfold(x, k, padding=k // 2).view(b, self.groups, c // self.groups, k * k, h, w)
        return (weight * patches).sum(dim=3).reshape(b, c, h, w)


class LeafNet(nn.Module):
    def __init__(self, classes=20):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.inv1, self.inv2 = Involution(32), Involution(32)
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(x + self.inv1(x))
        x = F.relu(x + self.inv2(x))
        return self.head(x.mean(dim=(2, 3)))


torch.manual_seed(0)
net = LeafNet()
model = torch.compile(net)
optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
images, labels = torch.randn(8, 3, 48, 48), torch.randint(0, 20, (8,))
for _ in range(30):
    optimiser.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimiser.step()
print("loss", loss.item())
