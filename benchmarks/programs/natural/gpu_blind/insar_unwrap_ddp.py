"""DDP training of a dilated conv net that unwraps InSAR interferograms.

torchrun --standalone --nproc-per-node 2 insar_unwrap_ddp.py
"""

import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

SIZE = max(32, int(224 * math.sqrt(SCALE)) // 8 * 8)
BATCH = max(2, int(8 * SCALE))
WIDTH = 96 if SCALE >= 0.5 else 16
BLOCKS = 12 if SCALE >= 0.5 else 4
WINDOW = 7
STEPS = 40


class DilatedBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = F.silu(self.bn1(self.conv1(x)))
        return F.silu(x + self.bn2(self.conv2(y)))


class Unwrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, WIDTH, 5, padding=2)
        self.body = nn.ModuleList(DilatedBlock(WIDTH, 2 ** (i % 4)) for i in range(BLOCKS))
        self.head = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, wrapped):
        x = self.stem(torch.cat([wrapped.cos(), wrapped.sin()], 1))
        for block in self.body:
            x = block(x)
        return self.head(x)


def fake_interferograms(gen):
    coarse = torch.randn(BATCH, 1, 8, 8, device=gen.device, generator=gen) * 9.0
    phase = F.interpolate(coarse, size=(SIZE, SIZE), mode="bicubic", align_corners=False)
    noise = 0.3 * torch.randn(phase.shape, device=gen.device, generator=gen)
    wrapped = torch.atan2((phase + noise).sin(), (phase + noise).cos())
    return wrapped, phase


def wrap(x):
    return x - 2 * math.pi * torch.round(x / (2 * math.pi))


def coherence(wrapped):
    b, _, h, w = wrapped.shape
    cos = F.unfold(wrapped.cos(), WINDOW, padding=WINDOW // 2)
    sin = F.unfold(wrapped.sin(), WINDOW, padding=WINDOW // 2)
    return (cos.mean(1).square() + sin.mean(1).square()).sqrt().view(b, 1, h, w)


def unwrap_loss(pred, wrapped, phase):
    weight = coherence(wrapped)
    gx = pred.diff(dim=-1) - wrap(wrapped.diff(dim=-1))
    gy = pred.diff(dim=-2) - wrap(wrapped.diff(dim=-2))
    grad = (weight[..., 1:] * gx.abs()).mean() + (weight[..., 1:, :] * gy.abs()).mean()
    error = pred - phase
    error = error - error.mean(dim=(2, 3), keepdim=True)
    local = F.unfold(error, WINDOW, padding=WINDOW // 2)
    rough = local.var(1).mean()
    consistency = (1 - torch.cos(pred - wrapped)).mul(weight).mean()
    return grad + 0.1 * F.smooth_l1_loss(error, torch.zeros_like(error)) + 0.05 * rough + consistency


def main():
    cuda = device == "cuda"
    local_rank = int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    gen = torch.Generator(device=dev).manual_seed(100 + rank)
    torch.backends.cudnn.benchmark = True

    model = Unwrapper().to(dev, memory_format=torch.channels_last)
    model = DDP(
        model, device_ids=[local_rank] if cuda else None, bucket_cap_mb=1, gradient_as_bucket_view=True
    )
    model = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    batches = [fake_interferograms(gen) for _ in range(4)]

    times = []
    for step in range(STEPS):
        wrapped, phase = batches[step % len(batches)]
        if cuda:
            torch.cuda.synchronize()
        t0 = time.perf_counter()
        with torch.autocast(dev.type, dtype=torch.bfloat16):
            pred = model(wrapped)
        loss = unwrap_loss(pred.float(), wrapped, phase)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - t0)
        if step % 10 == 0 and rank == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}", flush=True)
    tail = times[len(times) // 2 :]
    if rank == 0:
        print(f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
