"""Key points as SIFT begins: a pyramid of Gaussians, their differences, and extrema among 26 neighbours."""

import torch
import torch.nn.functional as F


def gaussian(sigma):
    r = int(3 * sigma + 0.5)
    g = torch.exp(-(torch.arange(-r, r + 1) ** 2) / (2 * sigma**2))
    return g / g.sum()


KERNELS = [gaussian(1.6 * 2 ** (k / 3)) for k in range(5)]


def blur(x, g):
    r = len(g) // 2
    x = F.conv2d(F.pad(x, (r, r, 0, 0), mode="reflect"), g.view(1, 1, 1, -1))
    return F.conv2d(F.pad(x, (0, 0, r, r), mode="reflect"), g.view(1, 1, -1, 1))


def keypoints(image):
    scores = []
    for _ in range(3):
        dog = torch.diff(torch.stack([blur(image, g) for g in KERNELS], 2), dim=2)
        top = F.max_pool3d(dog, 3, 1, 1)
        low = -F.max_pool3d(-dog, 3, 1, 1)
        extreme = ((dog == top) | (dog == low)) & (dog.abs() > 0.02)
        scores.append((extreme * dog.abs()).sum((1, 2)))
        image = F.interpolate(image, scale_factor=0.5, mode="bilinear")
    return [s.flatten(1).topk(50).values for s in scores]


torch.manual_seed(0)
detect = torch.compile(keypoints)
with torch.no_grad():
    for _ in range(15):
        out = detect(torch.rand(2, 1, 240, 320))
print([o.mean().item() for o in out])
