"""Peptide fragment-intensity prediction (MS2) with a small transformer."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
BATCH = 8 if SMOKE else 1024
MAX_LEN = 32
DIM = 32 if SMOKE else 512
HEADS = 2 if SMOKE else 8
DEPTH = 2 if SMOKE else 6
STEPS = 4 if SMOKE else 120
N_AA, N_ION = 24, 6


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x32 = x.float()
        rms = torch.rsqrt(x32.square().mean(-1, keepdim=True) + 1e-6)
        return (x32 * rms * self.weight).to(x.dtype)


def rope_tables(head_dim):
    inv = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    ang = torch.arange(MAX_LEN)[:, None] * inv
    return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    x1, x2 = x.float().chunk(2, -1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.gate = nn.Linear(DIM, 3 * DIM, bias=False)
        self.up = nn.Linear(DIM, 3 * DIM, bias=False)
        self.down = nn.Linear(3 * DIM, DIM, bias=False)
        self.qn, self.kn = RMSNorm(DIM // HEADS), RMSNorm(DIM // HEADS)

    def forward(self, x, mask, cos, sin):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(self.qn(q), cos, sin), rotate(self.kn(k), cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + F.dropout(self.proj(a.transpose(1, 2).reshape(b, n, -1)), 0.1, self.training)
        h = self.n2(x)
        h = self.down(F.silu(self.gate(h)) * self.up(h))
        return x + F.dropout(h, 0.1, self.training)


class FragmentNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.aa = nn.Embedding(N_AA, DIM)
        self.meta = nn.Linear(7, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm = RMSNorm(DIM)
        self.head = nn.Linear(DIM, N_ION)
        cos, sin = rope_tables(DIM // HEADS)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, seq, meta, valid):
        x = self.aa(seq) + self.meta(meta)[:, None]
        mask = valid[:, None, None, :].expand(-1, -1, MAX_LEN, -1)
        for layer in self.layers:
            x = layer(x, mask, self.cos, self.sin)
        return F.softplus(self.head(self.norm(x)).float())


def spectral_angle_loss(pred, target, valid):
    w = valid[..., None].float()
    p = F.normalize((pred * w).flatten(1), dim=1)
    t = F.normalize((target * w).flatten(1), dim=1)
    cos = (p * t).sum(1).clamp(-1 + 1e-6, 1 - 1e-6)
    return (2 / torch.pi) * torch.acos(cos).mean()


def make_batch(g, basis):
    seq = torch.randint(1, N_AA, (BATCH, MAX_LEN), device=DEVICE, generator=g)
    length = torch.randint(7, MAX_LEN + 1, (BATCH,), device=DEVICE, generator=g)
    valid = torch.arange(MAX_LEN, device=DEVICE) < length[:, None]
    charge = torch.randint(6, (BATCH,), device=DEVICE, generator=g)
    energy = torch.rand(BATCH, 1, device=DEVICE, generator=g)
    meta = torch.cat([F.one_hot(charge, 6).float(), energy], 1)
    target = (basis[seq] + basis[seq.roll(1, 1)]).square() * (0.5 + energy[..., None])
    return seq * valid, meta, valid, target


def main():
    torch.manual_seed(0)
    g = torch.Generator(device=DEVICE).manual_seed(4)
    basis = torch.randn(N_AA, N_ION, device=DEVICE, generator=g)
    batches = [make_batch(g, basis) for _ in range(8)]
    model = FragmentNet().to(DEVICE).train()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=not SMOKE)

    @torch.compile
    def loss_fn(seq, meta, valid, target):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            pred = model(seq, meta, valid)
        return spectral_angle_loss(pred, target, valid)

    t0 = time.perf_counter()
    for step in range(STEPS):
        loss = loss_fn(*batches[step % len(batches)])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if (step + 1) % max(1, STEPS // 6) == 0:
            print(f"step {step + 1:4d}  1 - SA {loss.item():.4f}  {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
