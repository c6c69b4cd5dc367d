"""Masked pre-training of a small transformer on satellite pixel time series.

Each sample is one field: up to 36 acquisitions x 10 spectral bands, with cloudy
dates dropped (padding at the end).  40 % of the valid dates are hidden and the
network reconstructs their reflectances.
"""

import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BANDS, DATES, DIM, HEADS, DEPTH = 10, 36, 64, 4, 2
BATCH, STEPS, WARMUP = 64, 60, 5


def make_fields(n, seed=0):
    rng = np.random.default_rng(seed)
    doy = np.sort(rng.integers(60, 300, size=(n, DATES)), axis=1)
    peak = rng.normal(180, 25, size=(n, 1))
    width = rng.uniform(20, 60, size=(n, 1))
    ndvi = np.exp(-0.5 * ((doy - peak) / width) ** 2)
    soil = rng.uniform(0.1, 0.35, size=(n, 1, BANDS))
    leaf = rng.uniform(0.02, 0.5, size=(n, 1, BANDS))
    refl = ndvi[..., None] * leaf + (1 - ndvi[..., None]) * soil
    refl += rng.normal(0, 0.01, refl.shape)
    length = rng.integers(20, DATES + 1, size=n)
    valid = np.arange(DATES)[None] < length[:, None]
    return (
        torch.from_numpy(refl.astype(np.float32)),
        torch.from_numpy(doy),
        torch.from_numpy(valid),
    )


class Block(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.n1 = nn.LayerNorm(DIM)
        self.n2 = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Dropout(p), nn.Linear(4 * DIM, DIM))
        self.drop = nn.Dropout(p)

    def forward(self, x, key_mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=key_mask[:, None, None, :])
        x = x + self.drop(self.out(a.transpose(1, 2).reshape(b, t, DIM)))
        return x + self.drop(self.ff(self.n2(x)))


class CropMAE(nn.Module):
    def __init__(self, p=0.1, hide=0.4):
        super().__init__()
        self.hide = hide
        self.embed = nn.Linear(BANDS, DIM)
        self.mask_token = nn.Parameter(torch.randn(DIM) * 0.02)
        self.blocks = nn.ModuleList(Block(p) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, BANDS)
        day = torch.arange(366).float()[:, None]
        freq = torch.exp(torch.arange(0, DIM, 2).float() * (-math.log(1000.0) / DIM))
        self.register_buffer("day_code", torch.cat([(day * freq).sin(), (day * freq).cos()], 1))

    def forward(self, refl, doy, valid):
        hidden = (torch.rand(valid.shape, device=refl.device) < self.hide) & valid
        x = self.embed(refl)
        x = torch.where(hidden[..., None], self.mask_token, x) + self.day_code[doy]
        for blk in self.blocks:
            x = blk(x, valid)
        pred = self.head(self.norm(x))
        err = pred[hidden] - refl[hidden]
        return F.smooth_l1_loss(err, torch.zeros_like(err), beta=0.05)


def main():
    torch.manual_seed(3)
    refl, doy, valid = make_fields(4096)
    mean, std = refl[valid].mean(0), refl[valid].std(0)
    refl = (refl - mean) / std

    model = CropMAE()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    step_fn = torch.compile(model)

    losses = []
    t0 = None
    for step in range(STEPS + WARMUP):
        if step == WARMUP:
            t0 = time.perf_counter()
        idx = torch.randint(0, refl.shape[0], (BATCH,))
        loss = step_fn(refl[idx], doy[idx], valid[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
    dt = (time.perf_counter() - t0) / STEPS
    print(f"loss {np.mean(losses[:10]):.4f} -> {np.mean(losses[-10:]):.4f}")
    print(f"{1e3 * dt:.2f} ms per step")


if __name__ == "__main__":
    main()
