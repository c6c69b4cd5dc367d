"""Texture features (grey-level co-occurrence, local binary patterns, orientation) of timber end-grain
patches, and a ridge classifier of the species on top of them."""

import time

import torch
import torch.nn.functional as F

torch.manual_seed(7)
LEVELS = 16
OFFSETS = [(0, 1), (1, 1), (1, 0), (1, -1), (0, 3), (3, 0)]
NEIGHBOURS = [(-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)]


def make_patches(n, size=96, species=6):
    """Growth rings, pores and rays with parameters that depend on the species."""
    label = torch.randint(0, species, (n,))
    yy, xx = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")
    out = torch.empty(n, size, size)
    for s in range(0, n, 256):
        l = label[s : s + 256, None, None].float()
        b = l.shape[0]
        th = 0.3 * torch.randn(b, 1, 1)
        u = xx * torch.cos(th) + yy * torch.sin(th)
        v = -xx * torch.sin(th) + yy * torch.cos(th)
        rings = torch.sin(u * (0.22 + 0.05 * l) + torch.rand(b, 1, 1) * 6)
        rays = (torch.sin(v * (0.8 + 0.07 * l)) > 0.93).float()
        noise = torch.randn(b, 1, size, size)
        pores = F.avg_pool2d(noise, 3, 1, 1).squeeze(1) < -(0.75 - 0.06 * l)
        out[s : s + 256] = 0.5 + 0.18 * rings + 0.15 * rays - 0.3 * pores + 0.04 * noise.squeeze(1)
    return out.clamp(0, 1), label


def shifted_pair(q, dy, dx):
    h, w = q.shape[-2:]
    a = q[:, : h - dy, max(0, -dx) : w - max(0, dx)]
    b = q[:, dy:, max(0, dx) : w + min(0, dx)]
    return a, b


def cooccurrence(q, dy, dx):
    a, b = shifted_pair(q, dy, dx)
    idx = (a * LEVELS + b).flatten(1)
    glcm = torch.zeros(q.shape[0], LEVELS * LEVELS)
    glcm.scatter_add_(1, idx, torch.ones_like(idx, dtype=torch.float32))
    glcm = glcm.view(-1, LEVELS, LEVELS)
    glcm = glcm + glcm.transpose(1, 2)
    return glcm / glcm.sum((1, 2), keepdim=True)


def haralick(p):
    i = torch.arange(LEVELS, dtype=torch.float32)
    d = i[:, None] - i[None, :]
    px = p.sum(2)
    mu = (px * i).sum(1)
    var = (px * (i - mu[:, None]) ** 2).sum(1)
    contrast = (p * d**2).sum((1, 2))
    homogeneity = (p / (1 + d**2)).sum((1, 2))
    dissimilarity = (p * d.abs()).sum((1, 2))
    energy = p.square().sum((1, 2)).sqrt()
    entropy = -(p * torch.log(p + 1e-9)).sum((1, 2))
    cc = ((i[:, None] - mu[:, None, None]) * (i[None, :] - mu[:, None, None]) * p).sum((1, 2))
    shade = ((i[:, None] + i[None, :] - 2 * mu[:, None, None]) ** 3 * p).sum((1, 2))
    return torch.stack(
        [
            contrast,
            homogeneity,
            dissimilarity,
            energy,
            entropy,
            cc / (var + 1e-6),
            shade / (var + 1e-6) ** 1.5,
        ],
        1,
    )


def lbp_histogram(x):
    centre = x[:, 1:-1, 1:-1]
    h, w = centre.shape[-2:]
    code = torch.zeros_like(centre, dtype=torch.int64)
    for k, (dy, dx) in enumerate(NEIGHBOURS):
        nb = x[:, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
        code = code | ((nb >= centre).long() << k)
    hist = torch.zeros(x.shape[0], 256)
    hist.scatter_add_(1, code.flatten(1), torch.ones(x.shape[0], h * w))
    return (hist / (h * w)).sqrt()


def orientation(x, bins=12):
    gy = x[:, 2:, 1:-1] - x[:, :-2, 1:-1]
    gx = x[:, 1:-1, 2:] - x[:, 1:-1, :-2]
    mag = torch.sqrt(gx * gx + gy * gy + 1e-8)
    ang = torch.remainder(torch.atan2(gy, gx), torch.pi) / torch.pi * bins
    centres = torch.arange(bins) + 0.5
    dist = (ang[..., None] - centres).abs()
    weight = (1 - torch.minimum(dist, bins - dist)).clamp_min(0) * mag[..., None]
    h = weight.sum((1, 2))
    return h / h.sum(1, keepdim=True)


@torch.compile
def features(x):
    lo = x.amin((1, 2), keepdim=True)
    hi = x.amax((1, 2), keepdim=True)
    x = (x - lo) / (hi - lo + 1e-6)
    q = (x * LEVELS).long().clamp_max(LEVELS - 1)
    parts = [haralick(cooccurrence(q, dy, dx)) for dy, dx in OFFSETS]
    parts += [lbp_histogram(x), orientation(x)]
    parts.append(torch.stack([x.mean((1, 2)), x.std((1, 2))], 1))
    return torch.cat(parts, 1)


def main():
    x, y = make_patches(2200)
    t0 = time.perf_counter()
    feats = torch.cat([features(b) for b in x.split(32)])
    dt = time.perf_counter() - t0
    print(f"{len(x)} patches, {feats.shape[1]} features each, {len(x) / dt:.0f} patches/s")
    f = (feats - feats[:1600].mean(0)) / (feats[:1600].std(0) + 1e-6)
    f = torch.cat([f, torch.ones(len(f), 1)], 1)
    target = F.one_hot(y, 6).float()
    A = f[:1600].T @ f[:1600] + 5.0 * torch.eye(f.shape[1])
    w = torch.linalg.solve(A, f[:1600].T @ target[:1600])
    acc = ((f[1600:] @ w).argmax(1) == y[1600:]).float().mean()
    print(f"species accuracy on held-out patches: {acc:.3f}")


if __name__ == "__main__":
    main()
