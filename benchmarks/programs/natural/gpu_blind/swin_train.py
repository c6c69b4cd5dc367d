"""Swin Transformer (Tiny) image classification training step on synthetic images."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

IMG = 224 if SCALE >= 0.5 else 112
BATCH = max(2, int(32 * SCALE))
DIM = 96 if SCALE >= 0.5 else 24
DEPTHS = (2, 2, 6, 2) if SCALE >= 0.5 else (2, 2)
HEADS = (3, 6, 12, 24)
CLASSES = 1000 if SCALE >= 0.5 else 10
WS = 7
STEPS = 40 if SCALE >= 0.5 else 10


def window_partition(x, ws):
    b, h, w, c = x.shape
    x = x.view(b, h // ws, ws, w // ws, ws, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws * ws, c)


def window_reverse(windows, ws, h, w):
    b = windows.shape[0] // ((h // ws) * (w // ws))
    x = windows.view(b, h // ws, w // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, w, -1)


def drop_path(x, p, training):
    if p == 0.0 or not training:
        return x
    keep = 1 - p
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
    return x * mask / keep


class WindowAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.table = nn.Parameter(torch.zeros((2 * WS - 1) ** 2, heads))
        coords = torch.stack(torch.meshgrid(torch.arange(WS), torch.arange(WS), indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + WS - 1
        self.register_buffer("rel_index", rel[..., 0] * (2 * WS - 1) + rel[..., 1])
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, x, mask=None):
        bw, n, c = x.shape
        qkv = self.qkv(x).reshape(bw, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        bias = self.table[self.rel_index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nw = mask.shape[0]
            attn = attn.view(bw // nw, nw, self.heads, n, n) + mask[None, :, None]
            attn = attn.view(-1, self.heads, n, n)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(bw, n, c)
        return self.proj(x)


class SwinBlock(nn.Module):
    def __init__(self, dim, heads, res, shift, dpr):
        super().__init__()
        self.res = res
        self.shift = 0 if res <= WS else shift
        self.dpr = dpr
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def attn_mask(self, device):
        if self.shift == 0:
            return None
        img = torch.zeros((1, self.res, self.res, 1), device=device)
        slices = (slice(0, -WS), slice(-WS, -self.shift), slice(-self.shift, None))
        cnt = 0
        for h in slices:
            for w in slices:
                img[:, h, w, :] = cnt
                cnt += 1
        win = window_partition(img, WS).view(-1, WS * WS)
        diff = win.unsqueeze(1) - win.unsqueeze(2)
        return diff.masked_fill(diff != 0, -100.0).masked_fill(diff == 0, 0.0)

    def forward(self, x):
        b, l, c = x.shape
        h = self.norm1(x).view(b, self.res, self.res, c)
        if self.shift:
            h = torch.roll(h, shifts=(-self.shift, -self.shift), dims=(1, 2))
        h = self.attn(window_partition(h, WS), self.attn_mask(x.device))
        h = window_reverse(h, WS, self.res, self.res)
        if self.shift:
            h = torch.roll(h, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + drop_path(h.view(b, l, c), self.dpr, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.dpr, self.training)


class PatchMerging(nn.Module):
    def __init__(self, dim, res):
        super().__init__()
        self.res = res
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        b, _, c = x.shape
        x = x.view(b, self.res, self.res, c)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduction(self.norm(x.view(b, -1, 4 * c)))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, DIM, 4, 4)
        self.embed_norm = nn.LayerNorm(DIM)
        rates = torch.linspace(0, 0.2, sum(DEPTHS)).tolist()
        layers, res, dim = [], IMG // 4, DIM
        for i, depth in enumerate(DEPTHS):
            for j in range(depth):
                layers.append(SwinBlock(dim, HEADS[i], res, 0 if j % 2 == 0 else WS // 2, rates.pop(0)))
            if i < len(DEPTHS) - 1:
                layers.append(PatchMerging(dim, res))
                res, dim = res // 2, dim * 2
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, x):
        x = self.embed_norm(self.embed(x).flatten(2).transpose(1, 2))
        x = self.norm(self.layers(x))
        return self.head(x.mean(1))


def main():
    torch.manual_seed(0)
    model = Swin().to(DEVICE)
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
    images = torch.randn(4 * BATCH, 3, IMG, IMG)
    labels = torch.randint(0, CLASSES, (4 * BATCH,))
    tic = time.time()
    for step in range(STEPS):
        idx = torch.randint(0, len(images), (BATCH,))
        x, y = images[idx].to(DEVICE), labels[idx].to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step % 10 == 9:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            print(
                f"step {step + 1} loss {loss.item():.4f} gnorm {grad_norm.item():.3f} {(time.time() - tic) * 100:.1f} ms/it"
            )
            tic = time.time()


if __name__ == "__main__":
    main()
