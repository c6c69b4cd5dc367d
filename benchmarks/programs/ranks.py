"""Twelve training steps on every GPU: `torchrun --standalone --nproc-per-node 2 ranks.py ddp|fsdp`."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(512) for _ in range(4))).cuda()
    if sys.argv[1] == "ddp":
        model = DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=8)
    else:
        mesh = init_device_mesh("cuda", (2,))
        for part in (*model, model):
            fully_shard(part, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    compiled = torch.compile(model)
    x = torch.randn(64, 128, 512, device="cuda")
    for _ in range(12):
        loss = compiled(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("rank", rank, "loss", round(loss.item(), 4))
    dist.destroy_process_group()


main()
