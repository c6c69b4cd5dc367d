"""Tensor-parallel inference of a time/feature mixer for smart-meter forecasts.

torchrun --standalone --nproc-per-node 2 meter_mixer_tp.py
"""

import os
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

HOURS = 672 if SCALE >= 0.5 else 96
DIM = 1024 if SCALE >= 0.5 else 64
HIDDEN = 2048 if SCALE >= 0.5 else 128
LAYERS = 8 if SCALE >= 0.5 else 3
METERS = max(2, int(32 * SCALE))
HORIZON = 48
STEPS = 50


class MixerLayer(nn.Module):
    """Each rank owns a slice of the channels for time mixing and of the hidden units."""

    def __init__(self, world, group):
        super().__init__()
        self.group, self.world = group, world
        self.norm_t = nn.LayerNorm(DIM // world)
        self.time_in = nn.Linear(HOURS, HOURS)
        self.time_out = nn.Linear(HOURS, HOURS)
        self.norm_c = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN // world)
        self.down = nn.Linear(HIDDEN // world, DIM, bias=False)
        self.down_bias = nn.Parameter(torch.zeros(DIM))

    def forward(self, x, rank):
        mine = x.chunk(self.world, dim=-1)[rank]
        y = self.norm_t(mine).transpose(1, 2)
        y = self.time_out(F.gelu(self.time_in(y))).transpose(1, 2)
        x = x + funcol.all_gather_tensor(y.contiguous(), 2, self.group)

        h = F.gelu(self.up(self.norm_c(x)))
        partial = self.down(h).float()
        total = funcol.all_reduce(partial, "sum", self.group)
        return x + (total + self.down_bias.float()).to(x.dtype)


class MeterMixer(nn.Module):
    def __init__(self, world, group):
        super().__init__()
        self.embed = nn.Linear(6, DIM)
        self.layers = nn.ModuleList(MixerLayer(world, group) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.quantiles = nn.Linear(DIM, 3)
        self.horizon = nn.Linear(HOURS, HORIZON)

    def forward(self, series, rank: int):
        mean = series.mean(1, keepdim=True)
        std = series.std(1, keepdim=True) + 1e-3
        x = self.embed((series - mean) / std)
        for layer in self.layers:
            x = layer(x, rank)
        q = self.quantiles(self.norm(x))
        q = self.horizon(q.transpose(1, 2)).transpose(1, 2)
        return torch.sort(q.float(), dim=-1).values * std[..., :1] + mean[..., :1]


def fake_meters(gen, dev, dtype):
    t = torch.arange(HOURS, device=dev, dtype=torch.float32)
    daily = torch.sin(2 * torch.pi * t / 24)[None, :, None]
    weekly = torch.cos(2 * torch.pi * t / 168)[None, :, None]
    noise = torch.randn(METERS, HOURS, 6, device=dev, generator=gen)
    gain = torch.rand(METERS, 1, 6, device=dev, generator=gen)
    return (gain * (daily + 0.5 * weekly) + 0.2 * noise).to(dtype)


def main():
    cuda = device == "cuda"
    local_rank = int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    dtype = torch.bfloat16

    torch.manual_seed(40)
    model = MeterMixer(world, dist.group.WORLD).to(dev, dtype).eval()
    for layer in model.layers:
        torch.manual_seed(1000 + rank)
        nn.init.normal_(layer.up.weight, std=0.02)
        nn.init.normal_(layer.down.weight, std=0.02)
    model = torch.compile(model)

    gen = torch.Generator(device=dev).manual_seed(9)
    times, pinball = [], 0.0
    with torch.no_grad():
        for step in range(STEPS):
            series = fake_meters(gen, dev, dtype)
            truth = series[:, :HORIZON, :1].float()
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
            q = model(series, rank)
            if cuda:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - t0)
            if step % 10 == 0:
                err = truth - q
                levels = torch.tensor([0.1, 0.5, 0.9], device=dev)
                pinball = torch.maximum(levels * err, (levels - 1) * err).mean().item()
                if rank == 0:
                    print(f"step {step:3d}  pinball {pinball:.4f}", flush=True)
    tail = times[len(times) // 2 :]
    if rank == 0:
        print(f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
