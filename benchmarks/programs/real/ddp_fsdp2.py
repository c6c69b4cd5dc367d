"""FSDP2: each block's parameters are sharded, the blocks are compiled one by one, as torchtitan does.

`torchrun --nproc-per-node 2 ddp_fsdp2.py`
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

cuda = torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
mesh = init_device_mesh(device.type, (dist.get_world_size(),))


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
model = torch.nn.Sequential(*(Block(256) for _ in range(4))).to(device)
for block in model:
    block.compile()
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(12):
    x = torch.randn(64, 256, device=device)
    loss = (model(x) - x.roll(1, 1)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"rank {dist.get_rank()} loss {loss.item():.4f}")
dist.destroy_process_group()
