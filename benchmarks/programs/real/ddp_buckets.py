"""DDP over a model of several gradient buckets, compiled: `torchrun --nproc-per-node 2 ddp_buckets.py`."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

cuda = torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
torch.manual_seed(0)
width = 1536 if cuda else 1024


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


model = torch.nn.Sequential(*(Block() for _ in range(3)), torch.nn.Linear(width, 10)).to(device)
model = torch.compile(DistributedDataParallel(model, device_ids=[device.index] if cuda else None))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
torch.manual_seed(dist.get_rank())
for step in range(15):
    x, y = torch.randn(256, width, device=device), torch.randint(0, 10, (256,), device=device)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 5 == 4:
        print(f"rank {dist.get_rank()} step {step} loss {loss.item():.4f}")
dist.destroy_process_group()
