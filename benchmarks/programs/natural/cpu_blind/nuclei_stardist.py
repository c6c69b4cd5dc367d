"""Train a StarDist-like network on synthetic fluorescence images of cell nuclei.

For each pixel the net predicts an object probability and the distances to the nucleus' boundary along 32 rays.
Images are drawn on the fly: random ellipses, blur, shot noise and uneven illumination.
"""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

N_RAYS = 32
SIZE = 80


def draw_sample(rng, gen):
    ys, xs = torch.meshgrid(torch.arange(SIZE).float(), torch.arange(SIZE).float(), indexing="ij")
    angles = torch.arange(N_RAYS) / N_RAYS * 2 * math.pi
    image = torch.zeros(SIZE, SIZE)
    prob = torch.zeros(SIZE, SIZE)
    dist = torch.zeros(N_RAYS, SIZE, SIZE)
    taken = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    for _ in range(rng.randint(5, 12)):
        cx, cy = rng.uniform(6, SIZE - 6), rng.uniform(6, SIZE - 6)
        a, b, th = rng.uniform(6, 11), rng.uniform(4.5, 8), rng.uniform(0, math.pi)
        u = ((xs - cx) * math.cos(th) + (ys - cy) * math.sin(th)) / a
        v = (-(xs - cx) * math.sin(th) + (ys - cy) * math.cos(th)) / b
        inside = u * u + v * v < 1
        if (inside & taken).any():
            continue
        taken |= inside
        # ray / ellipse intersection from every pixel inside
        du = torch.cos(angles - th) / a
        dv = torch.sin(angles - th) / b
        qa = (du**2 + dv**2)[:, None]
        ui, vi = u[inside][None], v[inside][None]
        qb = du[:, None] * ui + dv[:, None] * vi
        qc = ui**2 + vi**2 - 1
        d = (-qb + (qb**2 - qa * qc).clamp_min(0).sqrt()) / qa
        dist[:, inside] = d
        prob[inside] = 2 * d.min(0).values / (d.min(0).values + d.max(0).values + 1e-6)
        image[inside] = rng.uniform(0.4, 1.0) * (1 - 0.4 * (u[inside] ** 2 + v[inside] ** 2))
    k = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0])
    k = (k[:, None] * k[None]) / 256
    image = F.conv2d(image[None, None], k[None, None], padding=2)[0, 0]
    image = image * (0.7 + 0.3 * xs / SIZE) + 0.05
    image = torch.poisson(image * 60, generator=gen) / 60
    return image[None], prob, dist


def make_batch(rng, gen, n=6):
    images, probs, dists = zip(*[draw_sample(rng, gen) for _ in range(n)])
    return torch.stack(images), torch.stack(probs), torch.stack(dists)


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)))


class StarNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down1, self.down2 = Block(1, width), Block(width, 2 * width)
        self.middle = Block(2 * width, 4 * width)
        self.up2, self.up1 = Block(6 * width, 2 * width), Block(3 * width, 2 * width)
        self.features = nn.Conv2d(2 * width, 64, 3, padding=1)
        self.prob = nn.Conv2d(64, 1, 1)
        self.dist = nn.Conv2d(64, N_RAYS, 1)

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(F.max_pool2d(d1, 2))
        m = self.middle(F.max_pool2d(d2, 2))
        u = self.up2(
            torch.cat([F.interpolate(m, scale_factor=2, mode="bilinear", align_corners=False), d2], 1)
        )
        u = self.up1(
            torch.cat([F.interpolate(u, scale_factor=2, mode="bilinear", align_corners=False), d1], 1)
        )
        f = F.relu(self.features(u))
        return self.prob(f).squeeze(1), F.softplus(self.dist(f))


def star_loss(logit, dist, prob_t, dist_t):
    bce = F.binary_cross_entropy_with_logits(logit, prob_t)
    mask = prob_t > 0
    weight = prob_t[mask]
    err = (dist - dist_t).abs().permute(0, 2, 3, 1)[mask].mean(-1)
    l_dist = (err * weight).sum() / weight.sum().clamp_min(1e-6)
    # polygon IoU-style term: squared radii compared ray by ray
    p, q = dist.permute(0, 2, 3, 1)[mask], dist_t.permute(0, 2, 3, 1)[mask]
    iou = torch.minimum(p, q).pow(2).sum(-1) / torch.maximum(p, q).pow(2).sum(-1)
    return bce + 0.2 * l_dist + 0.1 * (1 - iou).mean(), l_dist.detach(), iou.mean().detach()


def main():
    torch.manual_seed(5)
    rng, gen = random.Random(5), torch.Generator().manual_seed(5)
    pool = [make_batch(rng, gen) for _ in range(12)]
    model = StarNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    net = torch.compile(model)

    steps, history = 70, []
    for step in range(steps):
        x, prob_t, dist_t = pool[step % len(pool)]
        if rng.random() < 0.5:
            x = x * rng.uniform(0.7, 1.3)
        opt.zero_grad()
        logit, dist = net(x)
        loss, l_dist, iou = star_loss(logit, dist, prob_t, dist_t)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        history.append((loss.item(), l_dist.item(), iou.item()))

    first, last = history[0], [sum(c) / 10 for c in zip(*history[-10:])]
    print(f"parameters {sum(p.numel() for p in model.parameters())}")
    print(f"loss {first[0]:.4f} -> {last[0]:.4f}")
    print(f"ray error {first[1]:.3f} px -> {last[1]:.3f} px, ray IoU {first[2]:.3f} -> {last[2]:.3f}")


if __name__ == "__main__":
    main()
