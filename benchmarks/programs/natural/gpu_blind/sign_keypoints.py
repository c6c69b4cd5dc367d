"""Isolated sign recognition: a transformer over body and hand keypoint tracks."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

JOINTS = 75
FRAMES = max(16, int(128 * min(1.0, SCALE * 4)))
BATCH = max(4, int(96 * SCALE))
DIM = 384
HEADS = 6
DEPTH = 6 if SCALE >= 0.5 else 2
GLOSSES = 1000
STEPS = 40


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.n2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class SignNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(JOINTS * 6, DIM)
        self.pos = nn.Parameter(torch.randn(1, FRAMES, DIM) * 0.02)
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.pool = nn.Linear(DIM, 1)
        self.head = nn.Linear(DIM, GLOSSES)

    def features(self, kp):
        centre = kp[:, :, :1]
        rel = kp - centre
        span = rel.flatten(2).abs().amax(dim=(1, 2), keepdim=True).unsqueeze(-1)
        rel = rel / (span + 1e-5)
        vel = F.pad(rel[:, 1:] - rel[:, :-1], (0, 0, 0, 0, 1, 0))
        return torch.cat([rel, vel], dim=-1).flatten(2)

    def forward(self, kp):
        x = self.embed(self.features(kp)) + self.pos
        for blk in self.blocks:
            x = blk(x)
        x = self.norm(x)
        w = torch.softmax(self.pool(x), dim=1)
        return self.head((w * x).sum(dim=1))


def synth_clips(n, gen):
    label = torch.randint(0, GLOSSES, (n,), generator=gen)
    t = torch.linspace(0, 1, FRAMES)[None, :, None, None]
    f = (label.float() % 17 + 1)[:, None, None, None]
    base = torch.randn(1, 1, JOINTS, 3, generator=gen)
    amp = torch.rand(n, 1, JOINTS, 3, generator=gen)
    kp = base + 0.2 * amp * torch.sin(6.283 * f * t)
    return kp + 0.01 * torch.randn(kp.shape, generator=gen), label


def main():
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(32)
    model = SignNet().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05, fused=True)
    net = torch.compile(model)
    clips, labels = synth_clips(BATCH * 4, gen)
    clips, labels = clips.to(DEVICE), labels.to(DEVICE)

    for step in range(STEPS):
        if step == 10:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        lo = (step % 4) * BATCH
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = net(clips[lo : lo + BATCH])
            loss = F.cross_entropy(logits, labels[lo : lo + BATCH], label_smoothing=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (STEPS - 10) * 1e3
    print(f"loss {loss.item():.4f}  {ms:.2f} ms/step  {BATCH / ms * 1e3:.0f} clips/s")


if __name__ == "__main__":
    main()
