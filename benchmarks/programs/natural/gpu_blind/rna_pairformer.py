"""Train a small pairformer trunk that predicts RNA residue-distance bins (distogram).

One crop per step as usual for this family of models. Each block holds triangle
multiplication, triangle attention around both nodes, and single attention with pair bias.
"""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
dev = "cpu" if SMOKE else "cuda"
N = 24 if SMOKE else 256
CZ = 16 if SMOKE else 128
CS = 32 if SMOKE else 256
HEADS = 4
BLOCKS = 2 if SMOKE else 3
STEPS = 2 if SMOKE else 80
BINS = 38


class TriangleMultiplication(nn.Module):
    def __init__(self, c, outgoing):
        super().__init__()
        self.outgoing = outgoing
        self.norm_in = nn.LayerNorm(c)
        self.norm_out = nn.LayerNorm(c)
        self.ab = nn.Linear(c, 2 * c, bias=False)
        self.ab_gate = nn.Linear(c, 2 * c, bias=False)
        self.gate = nn.Linear(c, c, bias=False)
        self.out = nn.Linear(c, c, bias=False)

    def forward(self, z):
        x = self.norm_in(z)
        a, b = (self.ab(x) * torch.sigmoid(self.ab_gate(x))).chunk(2, dim=-1)
        if self.outgoing:
            t = torch.einsum("bikc,bjkc->bijc", a, b)
        else:
            t = torch.einsum("bkic,bkjc->bijc", a, b)
        return self.out(self.norm_out(t)) * torch.sigmoid(self.gate(x))


class TriangleAttention(nn.Module):
    def __init__(self, c, heads, ending):
        super().__init__()
        self.h, self.ending = heads, ending
        self.norm = nn.LayerNorm(c)
        self.qkv = nn.Linear(c, 3 * c, bias=False)
        self.bias = nn.Linear(c, heads, bias=False)
        self.gate = nn.Linear(c, c, bias=False)
        self.out = nn.Linear(c, c, bias=False)

    def forward(self, z):
        if self.ending:
            z = z.transpose(1, 2)
        B, I, J, C = z.shape
        z = self.norm(z)
        q, k, v = self.qkv(z).view(B, I, J, 3, self.h, C // self.h).unbind(3)
        bias = self.bias(z).permute(0, 3, 1, 2)[:, None]  # B 1 H J K
        logits = torch.einsum("bijhd,bikhd->bihjk", q, k) / math.sqrt(C // self.h)
        att = torch.softmax(logits.float() + bias, dim=-1).to(v.dtype)
        o = torch.einsum("bihjk,bikhd->bijhd", att, v).reshape(B, I, J, C)
        o = self.out(o * torch.sigmoid(self.gate(z)))
        return o.transpose(1, 2) if self.ending else o


class Transition(nn.Module):
    def __init__(self, c, n=4):
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.a = nn.Linear(c, n * c, bias=False)
        self.b = nn.Linear(c, n * c, bias=False)
        self.o = nn.Linear(n * c, c, bias=False)

    def forward(self, x):
        x = self.norm(x)
        return self.o(F.silu(self.a(x)) * self.b(x))


class PairBiasAttention(nn.Module):
    def __init__(self, cs, cz, heads):
        super().__init__()
        self.h = heads
        self.ns, self.nz = nn.LayerNorm(cs), nn.LayerNorm(cz)
        self.qkv = nn.Linear(cs, 3 * cs)
        self.bias = nn.Linear(cz, heads, bias=False)
        self.out = nn.Linear(cs, cs)

    def forward(self, s, z):
        B, L, C = s.shape
        q, k, v = self.qkv(self.ns(s)).view(B, L, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        bias = self.bias(self.nz(z)).permute(0, 3, 1, 2)
        att = torch.softmax((q @ k.transpose(-1, -2)).float() / math.sqrt(C // self.h) + bias, -1)
        return self.out((att.to(v.dtype) @ v).transpose(1, 2).reshape(B, L, C))


class PairformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.tmo, self.tmi = TriangleMultiplication(CZ, True), TriangleMultiplication(CZ, False)
        self.tas, self.tae = TriangleAttention(CZ, HEADS, False), TriangleAttention(CZ, HEADS, True)
        self.tz, self.ts = Transition(CZ), Transition(CS)
        self.pba = PairBiasAttention(CS, CZ, 8)

    def forward(self, s, z):
        z = z + self.tmo(z)
        z = z + self.tmi(z)
        z = z + self.tas(z)
        z = z + self.tae(z)
        z = z + self.tz(z)
        s = s + self.pba(s, z)
        return s + self.ts(s), z


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, CS)
        self.left, self.right = nn.Embedding(5, CZ), nn.Embedding(5, CZ)
        self.rel = nn.Embedding(65, CZ)
        self.blocks = nn.ModuleList(PairformerBlock() for _ in range(BLOCKS))
        self.head = nn.Linear(CZ, BINS)
        self.pair_head = nn.Linear(CS, 2)

    def forward(self, seq):
        i = torch.arange(seq.shape[1], device=seq.device)
        rel = (i[:, None] - i[None]).clamp(-32, 32) + 32
        z = self.left(seq)[:, :, None] + self.right(seq)[:, None] + self.rel(rel)
        s = self.emb(seq)
        for blk in self.blocks:
            s, z = blk(s, z)
        return self.head(z + z.transpose(1, 2)), self.pair_head(s)


def fake_crop(gen):
    """Random-walk fold with a hairpin: sequence, distance bins, paired flags."""
    seq = torch.randint(1, 5, (1, N), generator=gen)
    half = N // 2
    seq[:, half:] = 5 - seq[:, : N - half].flip(1)
    step = torch.randn(half, 3, generator=gen)
    arm = (3.4 * step / step.norm(dim=1, keepdim=True)).cumsum(0) * 0.6
    xyz = torch.cat([arm, arm.flip(0) + 8.0 * torch.randn(1, 3, generator=gen)])
    bins = ((torch.cdist(xyz, xyz) - 2.0) / 1.0).clamp(0, BINS - 1).long()
    paired = (torch.rand(1, N, generator=gen) < 0.7).long()
    return seq.to(dev), bins[None].to(dev), paired.to(dev)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = Trunk().to(dev)
    for blk in net.blocks:
        blk.compile()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95))
    crops = [fake_crop(gen) for _ in range(2 if SMOKE else 8)]
    print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.2f} M parameters, crop {N}")
    running, t0 = None, time.time()
    for it in range(STEPS):
        seq, bins, paired = crops[it % len(crops)]
        with torch.autocast(dev, dtype=torch.bfloat16):
            dist, pr = net(seq)
        loss = F.cross_entropy(dist.float().flatten(0, 2), bins.flatten())
        loss = loss + 0.2 * F.cross_entropy(pr.float().flatten(0, 1), paired.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if it % 10 == 0:
            val = loss.item()
            running = val if running is None else 0.7 * running + 0.3 * val
            print(f"it {it:3d}  loss {val:.4f}  smooth {running:.4f}  {time.time() - t0:6.1f} s", flush=True)
    assert math.isfinite(loss.item())
    print("final loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
