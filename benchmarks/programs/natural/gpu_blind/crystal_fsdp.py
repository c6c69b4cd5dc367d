"""FSDP2 training of a distance-biased atom transformer on crystal cells.

torchrun --standalone --nproc-per-node 2 crystal_fsdp.py
"""

import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

DIM = 1024 if SCALE >= 0.5 else 64
HEADS = 16 if SCALE >= 0.5 else 4
LAYERS = 8 if SCALE >= 0.5 else 2
ATOMS = max(32, int(384 * SCALE))
BATCH = max(2, int(8 * SCALE))
RBF = 32
STEPS = 40


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
        return y.to(x.dtype) * self.weight


class AtomBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(DIM), RMSNorm(DIM)
        self.q_norm, self.k_norm = RMSNorm(DIM // HEADS), RMSNorm(DIM // HEADS)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.bias = nn.Linear(RBF, HEADS)
        self.out = nn.Linear(DIM, DIM, bias=False)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x, rbf, envelope):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)
        score = q @ k.transpose(-1, -2) * (DIM // HEADS) ** -0.5
        score = score.float() + self.bias(rbf).permute(0, 3, 1, 2)
        score = 30.0 * torch.tanh(score / 30.0)
        attn = torch.softmax(score, -1) * envelope[:, None]
        y = (attn.to(v.dtype) @ v).transpose(1, 2).reshape(b, n, DIM)
        x = x + self.out(y)
        h = self.up(self.norm2(x))
        return x + self.down(F.gelu(h, approximate="tanh"))


class AtomTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.species = nn.Embedding(100, DIM)
        self.blocks = nn.ModuleList(AtomBlock() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        self.energy = nn.Linear(DIM, 1)
        self.register_buffer("centers", torch.linspace(0, 1, RBF))

    def forward(self, species, frac):
        delta = frac[:, :, None] - frac[:, None, :]
        delta = delta - delta.round()
        dist2 = delta.square().sum(-1)
        r = (dist2 + 1e-8).sqrt()
        rbf = torch.exp(-((r[..., None] - self.centers.float()) * RBF).square())
        envelope = 0.5 * (torch.cos(torch.pi * r.clamp(0, 1)) + 1)
        x = self.species(species)
        rbf = rbf.to(x.dtype)
        for block in self.blocks:
            x = block(x, rbf, envelope)
        return self.energy(self.norm(x)).squeeze(-1).float().mean(1)


def main():
    cuda = device == "cuda"
    local_rank = int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh(dev.type, (dist.get_world_size(),))
    torch.manual_seed(1)

    model = AtomTransformer().to(dev)
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for block in model.blocks:
        block.compile()
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)

    gen = torch.Generator(device=dev).manual_seed(rank)
    times = []
    for step in range(STEPS):
        species = torch.randint(0, 100, (BATCH, ATOMS), device=dev, generator=gen)
        frac = torch.rand(BATCH, ATOMS, 3, device=dev, generator=gen)
        target = (species.float() / 100).mean(1) + frac[..., 0].std(1)
        if cuda:
            torch.cuda.synchronize()
        t0 = time.perf_counter()
        loss = F.mse_loss(model(species, frac), target)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - t0)
        if step % 10 == 0 and rank == 0:
            print(f"step {step:3d}  loss {loss.item():.5f}", flush=True)
    tail = times[len(times) // 2 :]
    if rank == 0:
        print(f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
