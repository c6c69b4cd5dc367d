"""DDP on the CPU under torchrun: `torchrun --nproc-per-node 2 ddp_gloo.py`."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
model = torch.compile(DistributedDataParallel(model))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(10):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(0, 8, (32,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(dist.get_rank(), round(loss.item(), 4))
dist.destroy_process_group()
