"""Train a temporal convolutional network that classifies gearbox faults of wind
turbines from short windows of vibration signals."""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)

SENSORS = 4
LENGTH = 768
CLASSES = 5
WIDTH = 40


def synth(n, seed):
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(0, CLASSES, (n,), generator=g)
    t = torch.arange(LENGTH) / 256.0
    speed = 9 + 2 * torch.rand(n, 1, generator=g)
    phase = 2 * math.pi * speed * t + 6.28 * torch.rand(n, 1, generator=g)
    base = torch.sin(phase) + 0.4 * torch.sin(3 * phase)
    fault = torch.zeros(n, LENGTH)
    for c in range(1, CLASSES):
        m = label == c
        mod = torch.relu(torch.sin(phase[m] * (0.3 + 0.2 * c))) ** 4
        fault[m] = mod * torch.sin(phase[m] * (5 + c))
    gain = 0.4 + torch.rand(n, SENSORS, 1, generator=g)
    noise = torch.randn(n, SENSORS, LENGTH, generator=g)
    return gain * (base + 0.8 * fault)[:, None] + 0.7 * noise, label


class Block(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        pad = dilation
        self.conv1 = nn.Conv1d(width, width, 3, padding=pad, dilation=dilation)
        self.conv2 = nn.Conv1d(width, width, 3, padding=pad, dilation=dilation)
        self.norm1 = nn.BatchNorm1d(width)
        self.norm2 = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        y = self.drop(F.gelu(self.norm1(self.conv1(x))))
        y = self.drop(F.gelu(self.norm2(self.conv2(y))))
        return x + y


class FaultNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(SENSORS, WIDTH, 7, stride=2, padding=3)
        self.blocks = nn.Sequential(*[Block(WIDTH, 2**i) for i in range(4)])
        self.head = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x):
        x = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
        x = self.blocks(self.stem(x))
        pooled = torch.cat([x.mean(-1), x.amax(-1)], dim=-1)
        return self.head(pooled)


def evaluate(model, loader):
    model.eval()
    right = count = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(-1) == y).sum().item()
            count += len(y)
    return right / count


def main():
    train = TensorDataset(*synth(1500, 10))
    valid = TensorDataset(*synth(400, 20))
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=64)

    net = FaultNet()
    model = torch.compile(net)
    epochs = 6
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=epochs * len(train_loader))

    for epoch in range(epochs):
        model.train()
        start = time.time()
        running = 0.0
        for x, y in train_loader:
            x = x + 0.05 * torch.randn_like(x)
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item()
        acc = evaluate(model, valid_loader)
        print(
            f"epoch {epoch}: loss {running / len(train_loader):.3f}  "
            f"valid acc {acc:.3f}  {time.time() - start:.1f} s"
        )
    print("parameters:", sum(p.numel() for p in net.parameters()))


if __name__ == "__main__":
    main()
