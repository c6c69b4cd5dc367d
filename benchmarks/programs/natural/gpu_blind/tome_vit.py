"""ViT-B/16 with token merging (ToMe): feature extraction over an image folder."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
IMG = 224 if not SMALL else 64
HEADS = max(2, int(12 * SCALE))
DIM = HEADS * 64
DEPTH = max(3, int(12 * SCALE))
BATCH = max(4, int(64 * SCALE))
N_IMAGES = BATCH * (39 if not SMALL else 7) + BATCH // 2
R = 13 if not SMALL else 3
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32


def bipartite_soft_matching(metric, r):
    """Returns merge function; the class token (index 0) is protected."""
    t = metric.shape[1]
    r = min(r, (t - 1) // 2)
    with torch.no_grad():
        metric = metric / metric.norm(dim=-1, keepdim=True)
        a, b = metric[..., ::2, :], metric[..., 1::2, :]
        scores = a @ b.transpose(-1, -2)
        scores[..., 0, :] = -float("inf")
        node_max, node_idx = scores.max(dim=-1)
        edge_idx = node_max.argsort(dim=-1, descending=True)[..., None]
        unm_idx = edge_idx[..., r:, :]
        src_idx = edge_idx[..., :r, :]
        dst_idx = node_idx[..., None].gather(dim=-2, index=src_idx)
        unm_idx = unm_idx.sort(dim=1)[0]

    def merge(x, mode="sum"):
        src, dst = x[..., ::2, :], x[..., 1::2, :]
        n, t1, c = src.shape
        unm = src.gather(dim=-2, index=unm_idx.expand(n, t1 - r, c))
        src = src.gather(dim=-2, index=src_idx.expand(n, r, c))
        dst = dst.scatter_reduce(-2, dst_idx.expand(n, r, c), src, reduce=mode)
        return torch.cat([unm, dst], dim=1)

    return merge


def merge_wavg(merge, x, size):
    x = merge(x * size)
    size = merge(size)
    return x / size, size


class ToMeAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, size=None):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)
        if size is not None:
            attn = attn + size.log()[:, None, None, :, 0]
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(x), k.mean(1)


class ToMeBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = ToMeAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, info):
        h, metric = self.attn(self.norm1(x), info["size"])
        x = x + h
        r = info["r"].pop(0)
        if r > 0:
            merge = bipartite_soft_matching(metric, r)
            if info["size"] is None:
                info["size"] = torch.ones_like(x[..., :1])
            x, info["size"] = merge_wavg(merge, x, info["size"])
        return x + self.mlp(self.norm2(x))


class ToMeViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, 16, 16)
        self.cls = nn.Parameter(torch.zeros(1, 1, DIM))
        self.pos = nn.Parameter(torch.randn(1, (IMG // 16) ** 2 + 1, DIM) * 0.02)
        self.blocks = nn.ModuleList([ToMeBlock(DIM, HEADS) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        info = {"r": [R] * DEPTH, "size": None}
        for block in self.blocks:
            x = block(x, info)
        x = self.norm(x)
        return {"cls": x[:, 0], "tokens": x.shape[1], "patch_mean": x[:, 1:].mean(1)}


@torch.no_grad()
def main():
    torch.manual_seed(0)
    mean = torch.tensor([0.485, 0.456, 0.406], device=DEVICE).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=DEVICE).view(3, 1, 1)
    model = ToMeViT().to(DEVICE, DTYPE).eval()
    model = torch.compile(model)
    pool = torch.randint(0, 256, (4 * BATCH, 3, IMG, IMG), dtype=torch.uint8)

    feats, times = [], []
    for i in range(0, N_IMAGES, BATCH):
        n = min(BATCH, N_IMAGES - i)
        off = i % (3 * BATCH)
        batch = pool[off : off + n].to(DEVICE)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        t0 = time.perf_counter()
        x = ((batch.float() / 255 - mean) / std).to(DTYPE)
        out = model(x)
        feat = F.normalize(torch.cat([out["cls"], out["patch_mean"]], -1).float(), dim=-1)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - t0)
        feats.append(feat.cpu())
    feats = torch.cat(feats)
    sims = feats[:32] @ feats.t()
    times.sort()
    print(
        f"{len(feats)} images, {out['tokens']} tokens left, median {times[len(times) // 2] * 1e3:.2f} ms/batch"
    )
    print(f"mean similarity {sims.mean().item():.4f}")


if __name__ == "__main__":
    main()
