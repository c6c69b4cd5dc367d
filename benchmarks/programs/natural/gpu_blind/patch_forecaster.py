"""PatchTST-style channel-independent long-horizon forecaster, training loop."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

torch.set_float32_matmul_precision("high")


class RevIN(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def norm(self, x):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - mean) / std * self.weight + self.bias, mean, std

    def denorm(self, y, mean, std):
        return (y - self.bias) / (self.weight + self.eps) * std + mean


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ff, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ff)
        self.fc2 = nn.Linear(ff, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.drop(self.proj(a.transpose(1, 2).reshape(b, n, d)))
        return x + self.drop(self.fc2(self.drop(F.gelu(self.fc1(self.norm2(x))))))


class PatchTST(nn.Module):
    def __init__(
        self, channels, context, horizon, patch=16, stride=8, dim=256, heads=8, ff=1024, depth=4, dropout=0.1
    ):
        super().__init__()
        self.patch, self.stride = patch, stride
        self.num_patches = (context - patch) // stride + 2
        self.revin = RevIN(channels)
        self.embed = nn.Linear(patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, self.num_patches, dim))
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, ff, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(self.num_patches * dim, horizon)

    def forward(self, x):
        b, _, c = x.shape
        x, mean, std = self.revin.norm(x)
        x = F.pad(x.transpose(1, 2), (0, self.stride), mode="replicate")
        x = x.unfold(-1, self.patch, self.stride).reshape(b * c, self.num_patches, self.patch)
        x = self.embed(x) + self.pos
        for layer in self.layers:
            x = layer(x)
        y = self.head(self.norm(x).flatten(1)).float()
        y = y.view(b, c, -1).transpose(1, 2)
        return self.revin.denorm(y, mean, std)


def synthetic_series(length, channels, device):
    t = torch.arange(length, device=device).float()[:, None]
    period = torch.linspace(12, 200, channels, device=device)
    trend = torch.randn(channels, device=device) * 1e-3
    x = torch.sin(2 * math.pi * t / period) + 0.3 * torch.cos(2 * math.pi * t / (3.1 * period))
    return x + trend * t + 0.1 * torch.randn(length, channels, device=device)


def main():
    torch.manual_seed(0)
    channels, context, horizon = 21, 512, 96
    batch = max(2, int(64 * SCALE))
    warmup, iters = 5, 40

    series = synthetic_series(20000, channels, DEVICE)
    model = PatchTST(channels, context, horizon).to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-2, fused=DEVICE == "cuda")
    net = torch.compile(model)
    window = torch.arange(context + horizon, device=DEVICE)

    def train_step():
        start = torch.randint(0, series.shape[0] - context - horizon, (batch, 1), device=DEVICE)
        chunk = series[start + window]
        x, y = chunk[:, :context], chunk[:, context:]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            pred = net(x)
        loss = F.mse_loss(pred, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    for _ in range(warmup):
        loss = train_step()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    losses = []
    for _ in range(iters if SCALE >= 1 else 4):
        losses.append(train_step())
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    losses = torch.stack(losses)
    print(f"first {losses[0].item():.4f}  last {losses[-1].item():.4f}  mean {losses.mean().item():.4f}")
    print(f"{1000 * elapsed / len(losses):.2f} ms/step  {batch * len(losses) / elapsed:.0f} windows/s")


if __name__ == "__main__":
    main()
