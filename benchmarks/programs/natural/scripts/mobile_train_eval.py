"""An inverted-residual network on small images: train some steps, evaluate with a smaller last batch, again."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Inverted(nn.Module):
    def __init__(self, i, o, stride, expand=4):
        super().__init__()
        h = i * expand
        self.net = nn.Sequential(
            nn.Conv2d(i, h, 1, bias=False),
            nn.BatchNorm2d(h),
            nn.ReLU6(),
            nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False),
            nn.BatchNorm2d(h),
            nn.ReLU6(),
            nn.Conv2d(h, o, 1, bias=False),
            nn.BatchNorm2d(o),
        )
        self.same = stride == 1 and i == o

    def forward(self, x):
        return x + self.net(x) if self.same else self.net(x)


class Mobile(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        self.body = nn.Sequential(
            Inverted(16, 24, 1), Inverted(24, 24, 1), Inverted(24, 40, 2), Inverted(40, 40, 1)
        )
        self.head = nn.Linear(40, classes)

    def forward(self, x):
        return self.head(F.dropout(self.body(self.stem(x)).mean((2, 3)), 0.2, self.training))


torch.manual_seed(0)
model = Mobile().to(memory_format=torch.channels_last)
fast = torch.compile(model)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
images = torch.randn(288, 3, 48, 48).to(memory_format=torch.channels_last)
labels = torch.randint(0, 10, (288,))
for epoch in range(3):
    model.train()
    for k in range(0, 256, 32):
        loss = F.cross_entropy(fast(images[k : k + 32]), labels[k : k + 32], label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for k in range(0, 280, 32):
            end = min(k + 32, 280)
            right += (fast(images[k:end]).argmax(1) == labels[k:end]).sum().item()
    print(epoch, loss.item(), right / 280)
