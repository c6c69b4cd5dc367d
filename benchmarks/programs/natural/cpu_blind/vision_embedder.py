"""Image embedding for near-duplicate search: small ResNet backbone, GeM pooling."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.down = None
        if stride != 1 or c_in != c_out:
            self.down = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        idt = x if self.down is None else self.down(x)
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + idt)


class GeM(nn.Module):
    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))
        self.eps = eps

    def forward(self, x):
        return x.clamp(min=self.eps).pow(self.p).mean(dim=(-2, -1)).pow(1.0 / self.p)


class Embedder(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        self.layer1 = nn.Sequential(BasicBlock(64, 64), BasicBlock(64, 64))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256))
        self.pool = GeM()
        self.fc = nn.Linear(256, dim)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return F.normalize(self.fc(self.pool(x)), dim=-1)


def randomize_bn(model):
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.weight, 0.6, 1.2)
            nn.init.uniform_(m.bias, -0.1, 0.1)
            m.running_mean.uniform_(-0.1, 0.1)
            m.running_var.uniform_(0.5, 1.5)


def main():
    torch.manual_seed(2024)
    model = Embedder()
    randomize_bn(model)
    model.eval()
    embed = torch.compile(model)

    batch, iters = 4, 30
    images = [torch.rand(batch, 3, 160, 160) for _ in range(6)]
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)

    with torch.no_grad():
        for img in images[:4]:
            embed((img - mean) / std)

        gallery = []
        t0 = time.perf_counter()
        for i in range(iters):
            gallery.append(embed((images[i % 6] - mean) / std))
        t1 = time.perf_counter()

    emb = torch.cat(gallery)
    sim = emb @ emb.T
    print(f"embedded {emb.shape[0]} images, dim {emb.shape[1]}")
    print(f"time per batch of {batch}: {(t1 - t0) / iters * 1e3:.2f} ms")
    print(f"checksum: {sim.double().mean().item():.6f} {emb.double().sum().item():.5f}")


if __name__ == "__main__":
    main()
