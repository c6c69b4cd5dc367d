"""Train a small classifier with batched kornia augmentations in front of it."""

import time

import kornia.augmentation as K
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_images(n, size, generator):
    """Coloured discs, squares, rings and stripes on a noisy background."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    labels = torch.randint(0, 4, (n,), generator=generator)
    centre = 0.6 * torch.rand(n, 2, 1, 1, generator=generator) - 0.3
    dx, dy = xx - centre[:, 0], yy - centre[:, 1]
    r = (dx**2 + dy**2).sqrt()
    shapes = torch.stack(
        [
            (r < 0.5).float(),
            ((dx.abs() < 0.45) & (dy.abs() < 0.45)).float(),
            ((r < 0.6) & (r > 0.35)).float(),
            (torch.sin(12 * dx) > 0).float() * (r < 0.7),
        ],
        dim=1,
    )
    mask = shapes[torch.arange(n), labels].unsqueeze(1)
    colour = 0.3 + 0.7 * torch.rand(n, 3, 1, 1, generator=generator)
    background = 0.2 * torch.rand(n, 3, size, size, generator=generator)
    return (mask * colour + (1 - mask) * background).clamp(0, 1), labels


def build_augmentation():
    return nn.Sequential(
        K.RandomHorizontalFlip(p=0.5),
        K.RandomAffine(degrees=15.0, translate=(0.1, 0.1), scale=(0.9, 1.1), p=0.8),
        K.ColorJiggle(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1, p=1.0),
        K.RandomGaussianBlur((3, 3), (0.1, 1.5), p=0.3),
        K.Normalize(mean=torch.tensor([0.45, 0.45, 0.45]), std=torch.tensor([0.25, 0.25, 0.25])),
    )


class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(48),
            nn.ReLU(),
        )
        self.head = nn.Linear(48, classes)

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(5)
    images, labels = make_images(512, 64, g)
    augment = build_augmentation()
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    @torch.compile
    def training_loss(x, y):
        with torch.no_grad():
            x = augment(x)
        return F.cross_entropy(model(x), y)

    losses, times = [], []
    for i in range(110):
        idx = torch.randint(0, len(images), (32,), generator=g)
        xb, yb = images[idx], labels[idx]
        t0 = time.perf_counter()
        loss = training_loss(xb, yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        if i >= 40:
            times.append(time.perf_counter() - t0)

    first, last = torch.stack(losses[:10]).mean(), torch.stack(losses[-10:]).mean()
    assert last < first, (first, last)
    times.sort()
    print(f"loss {first:.4f} -> {last:.4f}")
    print(
        f"median {1e3 * times[len(times) // 2]:.2f} ms, mean {1e3 * sum(times) / len(times):.2f} ms per step"
    )


if __name__ == "__main__":
    main()
