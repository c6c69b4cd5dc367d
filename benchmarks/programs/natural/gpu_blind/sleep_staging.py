"""Train a small 1-d conv network for sleep staging from multi-channel PSG recordings.

Recordings have different lengths and live on the device; each batch draws random
30 s epochs, normalises each one per channel and takes the hypnogram label.
"""

import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
FS = 100
EPOCH = 30 * FS
CHANNELS = 6
N_REC = 3 if SMOKE else 40
BATCH = 8 if SMOKE else 256
STEPS = 2 if SMOKE else 150
WARM = 1 if SMOKE else 10
WIDTH = 16 if SMOKE else 64
N_STAGE = 5


def make_recordings(rng):
    """Synthetic nights: band-limited activity whose mix depends on the stage."""
    recs, hyps = [], []
    centres = np.array([10.0, 7.0, 13.0, 1.5, 5.0])
    for r in range(N_REC):
        n_ep = int(rng.integers(20, 30) if SMOKE else rng.integers(700, 1000))
        stages = np.repeat(rng.integers(0, N_STAGE, size=n_ep // 5 + 1), 5)[:n_ep]
        f = torch.from_numpy(np.repeat(centres[stages], EPOCH)).float().to(DEV)
        phase = torch.cumsum(2 * np.pi * f / FS, 0).remainder(2 * np.pi)
        gen = torch.Generator(device=DEV).manual_seed(100 + r)
        amp = 0.5 + torch.rand(CHANNELS, 1, device=DEV, generator=gen)
        sig = amp * torch.sin(phase) + torch.randn(CHANNELS, phase.numel(), device=DEV, generator=gen)
        recs.append(sig * 20.0)
        hyps.append(stages)
    return recs, hyps


class EpochSampler:
    def __init__(self, recs, hyps, batch, rng):
        self.recs, self.hyps, self.batch, self.rng = recs, hyps, batch, rng

    def __call__(self):
        xs, ys = [], []
        for r in self.rng.integers(0, len(self.recs), size=self.batch):
            sig, hyp = self.recs[r], self.hyps[r]
            start = int(self.rng.integers(0, sig.shape[1] - EPOCH))
            seg = sig[:, start : start + EPOCH]
            seg = (seg - seg.mean(dim=1, keepdim=True)) / (seg.std(dim=1, keepdim=True) + 1e-6)
            xs.append(seg.clamp(-5, 5))
            ys.append(hyp[(start + EPOCH // 2) // EPOCH])
        return torch.stack(xs), torch.as_tensor(np.array(ys), device=DEV)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(c_in, c_out, 7, stride=stride, padding=3)
        self.norm1 = nn.GroupNorm(8, c_out)
        self.conv2 = nn.Conv1d(c_out, c_out, 7, padding=3)
        self.norm2 = nn.GroupNorm(8, c_out)
        self.skip = nn.Conv1d(c_in, c_out, 1, stride=stride)

    def forward(self, x):
        h = F.gelu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        return F.gelu(h + self.skip(x))


class SleepNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Conv1d(CHANNELS, width, 25, stride=5, padding=12)
        self.blocks = nn.Sequential(
            ResBlock(width, width, 2),
            ResBlock(width, 2 * width, 2),
            ResBlock(2 * width, 2 * width, 2),
            ResBlock(2 * width, 4 * width, 2),
        )
        self.attn = nn.Linear(4 * width, 1)
        self.head = nn.Sequential(nn.LayerNorm(4 * width), nn.Dropout(0.1), nn.Linear(4 * width, N_STAGE))

    def forward(self, x):
        h = self.blocks(F.gelu(self.stem(x))).transpose(1, 2)
        w = self.attn(h).softmax(dim=1)
        return self.head((w * h).sum(1))


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    recs, hyps = make_recordings(rng)
    sampler = EpochSampler(recs, hyps, BATCH, rng)
    net = SleepNet(WIDTH).to(DEV)
    model = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=not SMOKE)

    def train_step():
        x, y = sampler()
        with torch.autocast(DEV, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    losses = [train_step() for _ in range(WARM)]
    sync()
    t0 = time.perf_counter()
    for _ in range(STEPS):
        losses.append(train_step())
    sync()
    dt = (time.perf_counter() - t0) / STEPS
    curve = torch.stack(losses).tolist()
    ok = bool(np.isfinite(curve).all()) and (SMOKE or curve[-1] < curve[0])
    print(f"ok={ok} loss {curve[0]:.3f} -> {curve[-1]:.3f}")
    print(f"time per call: {dt * 1e3:.3f} ms")
    assert ok


if __name__ == "__main__":
    main()
